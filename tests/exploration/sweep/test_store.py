"""Finished points on disk: a kill at any time loses none that was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep.store import FinishedPoint, PointStore


def test_a_torn_line_is_cut_and_its_point_run_again(tmp_path: Path) -> None:
    store = PointStore(tmp_path)
    with store.writing() as writer:
        writer.add(FinishedPoint(key="a", error="x"))
        writer.add(FinishedPoint(key="b", error="y"))
    file = tmp_path / "points.jsonl"
    whole = file.read_bytes()
    for cut in range(1, len(whole) - whole.index(b"\n") - 1):
        file.write_bytes(whole[:-cut])
        with store.writing() as writer:
            assert list(store.read()) == ["a"]
            writer.add(FinishedPoint(key="b", error="y"))
        assert file.read_bytes() == whole


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "points.jsonl").write_text('{"key": "a"}\nrubbish\n')
    with pytest.raises(
        ConfigError, match=r"points.jsonl:2: not a finished point .*remove the line"
    ):
        PointStore(tmp_path).read()


def test_two_sweeps_do_not_write_one_folder(tmp_path: Path) -> None:
    store = PointStore(tmp_path)
    with (
        store.writing(),
        pytest.raises(ConfigError, match="another sweep is writing there"),
        PointStore(tmp_path).writing(),
    ):
        pass
