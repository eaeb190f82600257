"""`chakra convert`: by suffix, through pipes, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path

import chakrakit as ck
from chakrakit import read
from support.commands import chakra


def test_convert_by_suffix(place: Path) -> None:
    for name in ("x.et", "x.et.gz", "x.et.zst", "x.json", "x.parquet"):
        assert chakra("convert", place / "one.et", place / name).exit_code == 0
        assert len(read(place / name).trace(0)) == 2
    assert chakra("convert", place / "t", place / "u.N.json").exit_code == 0
    assert read(place / "u").ranks == (0, 1)
    assert chakra("convert", place / "t", place / "e").exit_code == 0
    assert read(place / "e").ranks == (0, 1)


def test_convert_says_what_is_left_out(place: Path) -> None:
    done = chakra("convert", place / "one.et", place / "x.feeder.json")
    assert done.stderr.startswith("note: 1 values of 'duration_ns' have no place in")
    done = chakra("convert", place / "one.et", place / "x.feeder.json", "--json")
    assert json.loads(done.stdout) == {"left_out": {"duration_ns": 1}, "notes": []}


def test_convert_through_pipes(place: Path) -> None:
    done = chakra("convert", "-", "-", input=(place / "one.et.gz").read_bytes())
    assert done.stdout_bytes == (place / "one.et").read_bytes()


def test_a_conversion_says_what_it_left_out(traces: ck.TraceSet, tmp_path: Path) -> None:
    ck.write(traces, tmp_path / "w.N.et")
    assert ck.convert(tmp_path / "w.0.et", tmp_path / "a.parquet").left_out == {}
    left = ck.convert(tmp_path / "w.0.et", tmp_path / "a.feeder.json").left_out
    assert left == {"duration_ns": 2}
    assert ck.info(tmp_path / "a.parquet").nodes == 2
