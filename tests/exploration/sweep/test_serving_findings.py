"""What the table of a study that serves shows, from five points written by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chakrakit.exploration.sweep.findings import THROUGHPUT, is_serving, latency_fronts, served_rows


def row(scale: int, seqs: int, tokens: float, ttft: float, **more):
    latencies = {"ttft_p99_ms": ttft, "tpot_p99_ms": 1.0, "e2e_p99_ms": 1.0}
    point = {"rate_scale": scale, "max_num_seqs": seqs, "status": "done", "attained": 1.0}
    return {**point, THROUGHPUT: tokens, **latencies, **more}


@pytest.fixture
def table() -> pa.Table:
    rows = [
        row(1, 4, 10.0, 5.0),
        row(8, 4, 40.0, 50.0, attained=0.5),
        row(1, 64, 10.0, 6.0),
        row(8, 64, 60.0, 40.0),
        row(9, 64, 90.0, 1.0, status="failed"),
    ]
    return pa.Table.from_pylist(rows)


def test_points_that_meet_their_level_come_first_by_throughput(table: pa.Table) -> None:
    assert [r[THROUGHPUT] for r in served_rows(table)] == [60, 10, 10, 40]
    assert is_serving(table)
    assert not is_serving(table.drop([THROUGHPUT]))


def test_configurations_are_what_is_not_the_load(table: pa.Table) -> None:
    found = latency_fronts(table)[0]
    assert found.latency == "ttft_p99_ms"
    assert {name: [r[THROUGHPUT] for r in rows] for name, rows in found.configurations.items()} == {
        "max_num_seqs 64": [10, 60],
        "max_num_seqs 4": [10, 40],
    }


def test_a_front_is_what_no_other_beats_in_both(table: pa.Table) -> None:
    """40 tokens at 50 ms and 10 at 6 ms are beaten by others in throughput and in latency."""
    best = latency_fronts(table)[0].best
    assert {(r[THROUGHPUT], r["ttft_p99_ms"]) for r in best} == {(60, 40), (10, 5)}
    assert "_slowness" not in best[0]
