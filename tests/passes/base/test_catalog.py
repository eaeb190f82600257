"""The catalog lists every pass with what a user needs to choose one."""

from __future__ import annotations

from chakrakit.passes.base import PASSES, list_passes


def test_every_pass_is_listed_once_with_what_it_preserves():
    listed = list_passes().passes
    assert [p.name for p in listed] == list(PASSES)
    assert all(p.what.endswith(".") and p.preserves for p in listed)


def test_a_field_has_its_type_and_its_default():
    [select] = [p for p in list_passes().passes if p.name == "select"]
    assert select.fields["hops"] == "int = 1"
    assert select.fields["around"] == "int | None = None"
    [edit] = [p for p in list_passes().passes if p.name == "edit"]
    assert edit.what == "Add time to chosen work, or scale it, on the device or on the host."
