"""Programs that are recorded without being changed: a step ends with each optimizer step."""

import importlib
import json
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from chakrakit.sources.pytorch.recorder import programs


@pytest.fixture
def finders(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return sys.meta_path


def test_a_module_is_reported_once_it_has_been_imported(finders, monkeypatch, tmp_path):
    (tmp_path / "late_module.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    finder = programs._AfterImport("late_module", lambda module: seen.append(module.value))
    finders.insert(0, finder)
    importlib.import_module("json.tool")
    assert seen == []
    importlib.import_module("late_module")
    monkeypatch.delitem(sys.modules, "late_module")
    assert seen == [3]
    assert finder not in finders


@pytest.mark.parametrize(("said", "added"), [(None, 0), ('{"steps": [1, 2]}', 1)])
def test_only_a_process_that_is_told_to_is_recorded(finders, monkeypatch, said, added):
    monkeypatch.delenv(programs.ENVIRONMENT, raising=False)
    if said:
        monkeypatch.setenv(programs.ENVIRONMENT, said)
    before = len(finders)
    programs.install_from_environment()
    assert len(finders) - before == added


class Collector:
    """Writes down what it is told; done after its third step."""

    made: ClassVar[list] = []

    def __init__(self, directory, steps, **options):
        self.said = [directory, steps, options]
        self.done = False
        self.made.append(self)

    def __enter__(self):
        self.said.append("enter")

    def step(self):
        self.said.append("step")
        self.done = len(self.said) == 7

    def finish(self):
        pass


@pytest.fixture
def optimizers(monkeypatch):
    """Two optimizers of a program whose module was just imported."""
    monkeypatch.setattr(programs, "Collector", Collector)
    monkeypatch.setattr(programs.atexit, "register", lambda function: None)
    monkeypatch.setattr(Collector, "made", [])

    class Optimizer:
        @staticmethod
        def profile_hook_step(function):
            return function

    settings = {"directory": "out", "steps": [1, 3], "two_pass": False, "stacks": True}
    programs._install(SimpleNamespace(Optimizer=Optimizer), json.loads(json.dumps(settings)))
    step = Optimizer.profile_hook_step(lambda optimizer: "stepped")
    return Optimizer(), Optimizer(), step


def test_the_first_optimizer_s_steps_count_and_no_others(optimizers):
    first, second, step = optimizers
    assert [step(o) for o in (first, second, first)] == ["stepped"] * 3
    (collector,) = Collector.made
    options = {"two_pass": False, "stacks": True}
    assert collector.said == ["out", (1, 3), options, "enter", "step", "step"]


def test_a_collector_that_is_done_hears_no_more_steps(optimizers):
    first, _, step = optimizers
    for _ in range(5):
        step(first)
    assert Collector.made[0].said.count("step") == 3
