"""Files of a prefix take their places together: all old or all new, whenever the writer stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import TraceSet, read, write
from chakrakit.trace.storage.places import finish, finish_all, placed_together
from support.stored_sets import names, program


def test_files_are_in_place_when_the_block_ends_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "w.0.et").write_text("old")
    with placed_together(tmp_path / "w") as folder:
        (folder / "w.0.et").write_text("new")
        (folder / "w.1.et").write_text("new")
        assert (tmp_path / "w.0.et").read_text() == "old"
        assert not (tmp_path / "w.1.et").exists()
    assert names(tmp_path) == ["w.0.et", "w.1.et"]
    assert (tmp_path / "w.0.et").read_text() == "new"


def test_a_block_that_fails_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "w.0.et").write_text("old")

    def fail_half_way() -> None:
        with placed_together(tmp_path / "w") as folder:
            (folder / "w.0.et").write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert names(tmp_path) == ["w.0.et"]
    assert (tmp_path / "w.0.et").read_text() == "old"


def test_every_prefix_of_a_folder_is_finished(tmp_path: Path) -> None:
    for prefix in ("v", "w"):
        (tmp_path / f".{prefix}.set").mkdir()
        (tmp_path / f".{prefix}.set" / f"{prefix}.0.et").touch()
    assert finish_all(tmp_path) == []
    assert names(tmp_path) == ["v.0.et", "w.0.et"]
    assert finish(tmp_path / "w") == []  # nothing is left to do


def test_what_cannot_be_moved_is_told_and_what_belongs_to_nobody_stays(tmp_path: Path) -> None:
    ready = tmp_path / ".w.set"
    ready.mkdir()
    (ready / "w.0.et").touch()
    (ready / "notes.txt").touch()
    (tmp_path / "w.0.et" / "in_the_way").mkdir(parents=True)  # a folder where the file belongs
    assert finish(tmp_path / "w") == [ready / "w.0.et"]
    assert names(ready) == ["notes.txt", "w.0.et"]


def test_a_set_that_was_ready_is_put_in_place_by_the_next_reader(tmp_path: Path) -> None:
    """As after a kill between two of the renames: rank 0 is new, rank 1 is not yet there."""
    write(TraceSet([program(), program()]), tmp_path / "w.N.et")
    write(TraceSet([program("new"), program("new")]), tmp_path / "new.N.et")
    ready = tmp_path / ".w.set"
    ready.mkdir()
    (tmp_path / "new.0.et").rename(tmp_path / "w.0.et")
    (tmp_path / "new.1.et").rename(ready / "w.1.et")
    found = read(tmp_path / "w")
    assert [found.trace(rank).names[0].as_py() for rank in found.ranks] == ["new", "new"]
    assert names(tmp_path) == ["w.0.et", "w.1.et"]
