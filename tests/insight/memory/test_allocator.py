"""The allocator's own history: its peaks and times, with what the trace knows of kinds and holders."""

from __future__ import annotations

import pyarrow as pa

from chakrakit.insight.memory import Memory, RankMemory, with_history

TOLD = Memory(
    30,
    0,
    "tensors",
    [
        RankMemory(
            rank=0,
            peak_bytes=30,
            peak_ns=4,
            before_bytes=10,
            by_kind={"activations": 30},
            holders=[],
            timeline=[],
            tensors=7,
            source="tensors",
        )
    ],
)


def test_peaks_are_the_allocators_and_kinds_those_of_the_tensors():
    history = pa.table({"rank": [0, 0, 0, 1], "time_ns": [0, 6, 9, 2], "bytes": [20, 50, 25, 45]})
    recorded = with_history(TOLD, history)
    assert (recorded.peak_bytes, recorded.peak_rank) == (50, 0)
    assert recorded.source == "the allocator's own history"
    first, second = recorded.ranks
    assert (first.peak_ns, first.before_bytes, first.tensors) == (6, 20, 7)
    assert first.by_kind == {"activations": 30}
    assert [(m.time_ns, m.bytes) for m in first.timeline] == [(0, 20), (6, 50), (9, 25)]
    assert (second.rank, second.peak_bytes, second.by_kind) == (1, 45, {})


def test_a_history_without_a_moment_says_nothing():
    nothing = pa.table({"rank": [], "time_ns": [], "bytes": []})
    assert with_history(TOLD, nothing) is TOLD
