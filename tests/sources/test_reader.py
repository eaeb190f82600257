"""NCCL Inspector's lines: headers in every line or before their records, gaps, and slow ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrakit.errors import FormatError
from chakrakit.insight.diagnosis import board_of, hang_culprits
from chakrakit.sources import link
from chakrakit.sources.calls import read_inspector

RANKS = 8


def head(rank: int, version: str) -> dict[str, Any]:
    return {
        "header": {"id": "0xabc", "rank": rank, "n_ranks": RANKS, "nnodes": 1},
        "metadata": {"inspector_output_format_version": version, "hostname": "box", "pid": rank},
    }


def record(number: int, start_us: float, stop_us: float) -> dict[str, Any]:
    return {
        "coll_perf": {
            "coll": "AllReduce",
            "coll_sn": number,
            "coll_msg_size_bytes": 1 << 20,
            "coll_exec_time_us": stop_us - start_us,
            "event_trace_ts": {"coll_start": start_us, "coll_stop": stop_us},
        }
    }


def lines(rank: int, version: str, late_us: float = 0.0) -> str:
    records = [record(n, n * 1000.0 + late_us + rank, n * 1000.0 + 700) for n in range(20)]
    if version == "v4.3":
        marker = head(rank, version) | {"dump_stats": {"coll_records": 20}}
        return "\n".join(map(json.dumps, [marker, *records])) + "\n"
    return "\n".join(json.dumps(head(rank, version) | r) for r in records) + "\n"


def write(folder: Path, version: str, late: int = -1) -> Path:
    for rank in range(RANKS):
        text = lines(rank, version, 400.0 if rank == late else 0.0)
        (folder / f"inspector-{100 + rank}.log").write_text(text)
    return folder


@pytest.mark.parametrize("version", ["v4.0", "v4.1", "v4.3"])
def test_ranks_meet_in_their_communicator(tmp_path: Path, version: str) -> None:
    run, report = link([write(tmp_path, version)])

    assert report.groups == {"0xabc": list(range(RANKS))}
    instances = run.collectives.instances
    assert instances.num_rows == 20
    assert set(instances.column("ranks").to_pylist()) == {RANKS}
    assert set(instances.column("comm_size").to_pylist()) == {1 << 20}
    for rank in report.ranks:
        assert rank.scheduled_span_ns == rank.measured_span_ns
        assert rank.edge_violations == 0


def test_the_rank_that_comes_last_is_named(tmp_path: Path) -> None:
    run, _ = link([write(tmp_path, "v4.3", late=5)])

    (found,) = hang_culprits(board_of(run))

    assert (found.kind, found.rank) == ("slow-rank", 5)


def test_dropped_records_blame_nobody(tmp_path: Path) -> None:
    write(tmp_path, "v4.3")
    short = tmp_path / "inspector-103.log"
    short.write_text("\n".join(short.read_text().splitlines()[:9]) + "\n")

    run, _ = link([tmp_path])

    assert hang_culprits(board_of(run)) == []


def test_a_line_cut_off_at_the_end_is_counted(tmp_path: Path) -> None:
    found = read_inspector(lines(0, "v4.1").encode()[:-30])

    assert len(found.calls) == 19
    assert found.calls.left_out["line cut off"] == 1


def test_records_without_stamps_are_placed_after_each_other() -> None:
    bare = [
        head(0, "v4.1")
        | {"coll_perf": {"coll": "AllGather", "coll_sn": n, "coll_exec_time_us": 5.0}}
        for n in range(3)
    ]
    calls = read_inspector("\n".join(map(json.dumps, bare)).encode()).calls

    assert calls.created.tolist() == [0, 5_000, 10_000]
    assert calls.repaired == {"placed_without_start": 3}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(head(0, "v5.0")), "version 'v5.0'"),
        ("{broken\n" + lines(0, "v4.1"), "line 1 is not a record"),
        ("{}\n", "no record of NCCL Inspector"),
    ],
)
def test_other_files_end_in_one_error(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read_inspector(text.encode())
