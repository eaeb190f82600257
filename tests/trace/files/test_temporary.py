"""Outputs that are whole or not there."""

import os
import signal

import pytest

from chakrakit.trace.files import (
    claimed,
    private_temporary,
    remove_stale,
    scratch,
    take_place,
    temporary_name,
    uninterrupted,
)


def test_a_claimed_file_goes_with_its_block(tmp_path):
    target = tmp_path / "out.et"
    with claimed(target) as temporary:
        temporary.write_text("half")
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".out.et.")
    assert list(tmp_path.iterdir()) == []


def test_unless_it_took_its_place(tmp_path):
    target = tmp_path / "out.et"
    target.write_text("old")
    with claimed(target) as temporary:
        temporary.write_text("new")
        take_place(temporary, target)
    assert [f.read_text() for f in tmp_path.iterdir()] == ["new"]


def test_directories_change_places_whole(tmp_path):
    target = tmp_path / "run"
    target.mkdir()
    (target / "old").touch()
    with claimed(target, folder=True) as temporary:
        (temporary / "new").touch()
        take_place(temporary, target)
    assert [f.name for f in target.iterdir()] == ["new"]
    assert [f.name for f in tmp_path.iterdir()] == ["run"]


def test_what_a_dead_writer_left_goes_and_a_living_ones_stays(tmp_path):
    target = tmp_path / "out"
    left = temporary_name(target)
    left.touch()
    with claimed(target) as alive:
        assert not left.exists()
        remove_stale(target)
        assert alive.exists()


def test_other_files_are_nobodys_to_remove(tmp_path):
    for name in (".other.0123abcd.tmp", ".out.tmp", "out"):
        (tmp_path / name).touch()
    remove_stale(tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_leaves_nothing(tmp_path):
    def fail():
        with claimed(tmp_path / "x") as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_signal_waits_for_the_end_of_the_block():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("handled"))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            seen.append("block")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == ["block", "handled"]


def test_scratch_is_ones_own_and_goes():
    with scratch("chakra-test") as folder:
        (folder / "x").touch()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_nothing_names_a_private_directory_after_its_block(monkeypatch, tmp_path):
    """A library that keeps a place in it for later would look for what is gone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with private_temporary("ours") as folder:
        monkeypatch.setenv("CACHE_OF_A_LIBRARY", str(folder / "cache"))
        assert os.environ["TMPDIR"] == str(folder)
    assert os.environ["TMPDIR"] == str(tmp_path)
    assert "CACHE_OF_A_LIBRARY" not in os.environ
