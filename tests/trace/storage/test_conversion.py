"""Conversions keep what the target can hold, and say what it cannot."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from chakrakit import (
    Binding,
    CollectiveType,
    Groups,
    Run,
    Times,
    Trace,
    TraceBuilder,
    TraceSet,
    read,
    write,
)
from chakrakit.errors import ChakraError
from chakrakit.trace.sets import run_of
from chakrakit.trace.storage import convert


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_500, note="kept")
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a])
    return t.build()


@pytest.mark.parametrize("via", ["json", "json.gz", "json.zst", "parquet", "et.gz", "et.zst"])
def test_through_any_lossless_form_and_back_is_the_same_file(tmp_path: Path, via: str) -> None:
    write(program(), tmp_path / "a.et")
    assert convert(tmp_path / "a.et", tmp_path / f"b.{via}") == {}
    assert convert(tmp_path / f"b.{via}", tmp_path / "c.et") == {}
    assert (tmp_path / "a.et").read_bytes() == (tmp_path / "c.et").read_bytes()


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    write(program(), tmp_path / "a.et")
    assert convert(tmp_path / "a.et", tmp_path / "b.feeder.json") == {"note": 1, "duration_ns": 1}
    write(TraceSet([program(), program()]), tmp_path / "t.N.et")
    assert convert(tmp_path / "t", tmp_path / "f.N.feeder.json") == {"note": 2, "duration_ns": 2}
    assert read(tmp_path / "f").ranks == (0, 1)


def test_all_ranks_to_files_and_to_a_directory(tmp_path: Path) -> None:
    folded = TraceSet([program()], {0: Binding(0), 3: Binding(0)}, Groups({"g": [0, 3]}))
    write(folded, tmp_path / "d")
    steps: list[tuple[int, int | None]] = []
    convert(tmp_path / "d", tmp_path / "t.N.parquet", lambda *s: steps.append(s))
    assert steps == [(1, 2), (2, 2)]
    assert read(tmp_path / "t").ranks == (0, 3)
    assert dict(read(tmp_path / "t").groups) == {"g": (0, 3)}
    convert(tmp_path / "t", tmp_path / "e")
    assert read(tmp_path / "e").ranks == (0, 3)


def test_a_folded_directory_of_one_body_is_not_one_rank(tmp_path: Path) -> None:
    write(TraceSet([program()], {0: Binding(0), 1: Binding(0)}), tmp_path / "d")
    with pytest.raises(ChakraError, match="one file cannot hold 2 ranks"):
        convert(tmp_path / "d", tmp_path / "x.et")


def test_a_bound_rank_alone_is_written_as_it_runs(tmp_path: Path) -> None:
    write(TraceSet([program()], {5: Binding(0, scale=2.0)}), tmp_path / "d")
    convert(tmp_path / "d", tmp_path / "x.et")
    assert read(tmp_path / "x.et").trace(0).duration_ns.tolist() == [3000, 0]


def test_a_runs_times_go_with_it(tmp_path: Path) -> None:
    run = run_of(TraceSet([program()]), {0: Times(np.array([7, 9]), np.array([8, 10]))})
    write(run, tmp_path / "d")
    convert(tmp_path / "d", tmp_path / "x.et")
    found = read(tmp_path / "x.et")
    assert isinstance(found, Run)
    assert found.start(0).tolist() == [7, 9]


def test_a_stream_to_its_own_name(tmp_path: Path) -> None:
    write(program(), tmp_path / "a.et")
    before = (tmp_path / "a.et").read_bytes()
    convert(tmp_path / "a.et", tmp_path / "a.et")
    assert (tmp_path / "a.et").read_bytes() == before
    convert(io.BytesIO(before), tmp_path / "b.et")
    assert (tmp_path / "b.et").read_bytes() == before


def test_a_broken_source_leaves_no_target(tmp_path: Path) -> None:
    write(program(), tmp_path / "a.et")
    (tmp_path / "a.et").write_bytes((tmp_path / "a.et").read_bytes()[:-3])
    for target in ("b.et", "b.json", "b.parquet", "b.feeder.json", "b.et.gz", "b.et.zst"):
        with pytest.raises(ChakraError, match=r"a\.et"):
            convert(tmp_path / "a.et", tmp_path / target)
    assert [p.name for p in tmp_path.iterdir()] == ["a.et"]
