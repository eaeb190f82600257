"""A program captured at any number of ranks: what it does, who does the same, what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chakrakit import validate

Captured = Callable[..., Any]


def collectives(report: Any) -> list[tuple[str, str, int, int]]:
    return [(c.type, c.group, c.count, c.bytes) for c in report.collectives]


@pytest.mark.slow
def test_data_parallelism_reduces_one_bucket_and_sends_rank_0s_buffers(captured: Captured) -> None:
    report, traces = captured("ddp", ranks=4)
    parameters = 64 * 256 + 256 + 2 * 256 + 256 * 10 + 10
    assert [(k.ranks, k.parameters) for k in report.kinds] == [(4, parameters)]
    assert collectives(report) == [
        ("ALL_REDUCE", "world", 1, 4 * parameters),
        ("BROADCAST", "world", 2, 2 * 4 * 256 + 8),
    ]
    assert report.warnings == ["ddp.py:20: the value of a tensor is a placeholder (1)"]
    assert validate(traces).ok


@pytest.mark.slow
def test_the_number_of_ranks_changes_the_groups_and_not_the_program(captured: Captured) -> None:
    few, _ = captured("ddp", ranks=4)
    many, traces = captured("ddp", ranks=512)
    assert (len(traces), traces.body_count) == (512, 1)
    assert traces.groups["1"] == tuple(range(512))
    assert collectives(many) == collectives(few)
    assert [(k.nodes, k.flops) for k in many.kinds] == [(k.nodes, k.flops) for k in few.kinds]


@pytest.mark.slow
def test_the_trace_holds_at_most_what_the_report_says(captured: Captured) -> None:
    """Memory given back between operators, gradients of the step before among it, is given back."""
    from chakrakit import simulate

    report, traces = captured("ddp", ranks=4)
    found = simulate(traces, machine="dgx-h200", compute="roofline")
    assert [r.peak_bytes for r in found.summary.ranks] == [report.kinds[0].peak_bytes] * 4
