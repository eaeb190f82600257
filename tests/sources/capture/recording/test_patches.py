"""Attributes replaced for the time of a capture, and put back."""

from __future__ import annotations

import math
import sys
import sysconfig
from types import ModuleType

import pytest

from chakrakit.sources.capture.recording import Patches, is_library, script_line


class Parent:
    def answer(self):
        return "parent"


class Child(Parent):
    pass


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.undo()


def test_what_was_replaced_comes_back_in_reverse_order(patches):
    owner = ModuleType("owner")
    owner.value = 1
    assert patches.set(owner, "value", 2) == 1
    assert patches.set(owner, "value", 3) == 2
    assert patches.set(owner, "fresh", 4) is None
    patches.undo()
    assert owner.value == 1
    assert not hasattr(owner, "fresh")


def test_an_inherited_method_is_replaced_on_the_class_alone(patches):
    patches.set(Child, "answer", lambda self: "replaced")
    assert (Child().answer(), Parent().answer()) == ("replaced", "parent")
    patches.undo()
    assert "answer" not in Child.__dict__
    assert Child().answer() == "parent"


def test_a_wrapped_function_keeps_its_name_and_what_is_not_there_stays_away(patches):
    owner = ModuleType("owner")
    owner.double = lambda x: 2 * x
    owner.double.__name__ = "double"
    patches.wrap(owner, "double", lambda plain: lambda x: plain(x) + 1)
    patches.wrap(owner, "gone", lambda plain: plain)
    assert (owner.double(4), owner.double.__name__) == (9, "double")
    assert not hasattr(owner, "gone")


def test_a_function_is_replaced_under_every_name_it_was_imported_by(patches, monkeypatch):
    found = math.hypot
    other = ModuleType("other_module")
    other.alias = found
    monkeypatch.setitem(sys.modules, "other_module", other)
    patches.replace(found, len)
    assert (other.alias, math.hypot) == (len, len)
    patches.undo()
    assert (other.alias, math.hypot) == (found, found)


def test_a_stub_does_nothing_and_is_listed_once_called(patches):
    owner = ModuleType("owner")
    owner.save = owner.load = print
    patches.stub(owner, "save", "owner.save", result=7)
    patches.stub(owner, "load", "owner.load")
    patches.stub(owner, "gone", "owner.gone")
    assert [owner.save("x"), owner.save("y")] == [7, 7]
    assert list(patches.stubbed) == ["owner.save"]


def test_warnings_are_said_once_and_other_acts_are_taken_back_too(patches):
    undone = []
    patches.on_undo(lambda: undone.append(1))
    for _ in range(2):
        patches.warn("careful")
    patches.undo()
    patches.undo()
    assert (list(patches.warnings), undone) == (["careful"], [1])


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("/home/me/train.py", False),
        ("/home/me/lib/python3/site-packages/torch/optim/sgd.py", True),
        ("<frozen importlib>", True),
        (sysconfig.get_path("stdlib") + "/json/__init__.py", True),
        (sys.modules[Patches.__module__].__file__, True),
    ],
)
def test_what_belongs_to_a_library(path, library):
    assert is_library(path) is library


def test_the_line_of_the_script_is_the_innermost_that_is_no_library_s():
    """Called back by the standard library, the line is still that of this file."""
    here = []
    sorted([1, 2], key=lambda x: here.append(script_line()) or x)
    assert {line.partition(":")[0] for line in here} == {"test_patches.py"}
