"""Which steps are recorded, and with what."""

from __future__ import annotations

import json

import pytest

from chakrakit.sources.pytorch import recorder
from chakrakit.sources.pytorch.recorder import Collector, collector


@pytest.mark.parametrize(("text", "window"), [("10:12", (10, 12)), (":2", (0, 2)), ("5", (5, 6))])
def test_steps_as_text(text, window):
    assert recorder.parse_steps(text) == window


@pytest.mark.parametrize("text", ["a:b", "5:5", "7:3", "-1:2"])
def test_steps_that_hold_none_are_refused(text):
    with pytest.raises(ValueError, match="steps"):
        recorder.parse_steps(text)


def test_the_collector_needs_only_pytorch_and_the_standard_library():
    """It is copied to machines where nothing can be installed."""
    for file in recorder.FOLDER.glob("*.py"):
        source = file.read_text()
        assert "chakrakit" not in source.split('"""', 2)[2]
        assert "import numpy" not in source


@pytest.fixture
def log(monkeypatch):
    """What is recorded, in order: files as they are opened, steps, and ends."""
    pytest.importorskip("torch", reason="pip install torch")
    found = []

    class Recording:
        def __init__(self, kineto, observer, shapes, stacks):
            self.observer = observer
            found.append(kineto.name.split("_")[0] + ("+et" if observer else ""))

        def begin_step(self, number):
            found.append(number)

        def end_step(self):
            pass

        def end(self):
            found.append("end")

    monkeypatch.setattr(collector, "ProfilerWindow", Recording)
    monkeypatch.setattr(
        collector, "mark_groups", lambda wait_after: lambda: found.append("unmarked")
    )
    monkeypatch.setattr(collector, "record_captures", lambda path, free: lambda: None)
    monkeypatch.setattr(collector, "global_settings", lambda: {"threads": 2})
    return found


def run(folder, steps, window, **options):
    with Collector(folder, window, overhead=False, **options) as c:
        for _ in range(steps):
            c.step()
    return json.loads((folder / "card_0.json").read_text())


def test_a_window_is_recorded_and_then_all_is_undone(log, tmp_path):
    card = run(tmp_path, 5, (1, 3), two_pass=False)
    assert log == ["kineto+et", 1, 2, "end", "unmarked"]
    assert (card["steps"], card["two_pass"], card["settings"]) == ([1, 3], False, {"threads": 2})


def test_by_default_as_many_steps_before_the_window_are_timed_alone(log, tmp_path):
    card = run(tmp_path, 5, (2, 4))
    assert log == ["times", 0, 1, "end", "kineto+et", 2, 3, "end", "unmarked"]
    assert card["two_pass"]


def test_a_program_that_ends_early_leaves_what_there_is(log, tmp_path):
    run(tmp_path, 2, (1, 9), two_pass=False)
    assert log == ["kineto+et", 1, 2, "end", "unmarked"]


def test_bare_steps_are_timed_before_anything_is_recorded(log, tmp_path, monkeypatch):
    """Of the steps 1 to 4 the mean: 40 ms from the clock at 1 to the clock at 5."""
    clock = iter([7_000_000, 47_000_000])
    monkeypatch.setattr(collector.time, "perf_counter_ns", lambda: next(clock))
    assert run(tmp_path, 6, (5, 6), two_pass=False)["overhead"] == {"step_ns": 10_000_000}


@pytest.mark.parametrize(("window", "two_pass"), [((3, 3), False), ((1, 4), True)])
def test_a_window_without_room_is_refused(tmp_path, window, two_pass):
    with pytest.raises(ValueError, match="leave no room for the first pass"):
        Collector(tmp_path, window, two_pass=two_pass)
