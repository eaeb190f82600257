"""Memory over time by rank: what holds the peak, and a timeline that keeps it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.memory import memory, thinned
from chakrakit.trace.sets import Run
from support import paths

DATA = paths.DATA / "pytorch"


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "resnet50_b128"])
def test_peak_memory_is_what_the_allocator_counted(linked, name):
    card = json.loads((DATA / name / "card.json").read_text())
    usage = memory(linked(name))
    assert usage.peak_bytes == pytest.approx(card["peak_mem_bytes"], rel=0.05)
    (rank,) = usage.ranks
    assert sum(rank.by_kind.values()) == rank.peak_bytes
    assert sum(h.bytes for h in rank.holders) <= rank.peak_bytes
    assert max(m.bytes for m in rank.timeline) == rank.peak_bytes


def tensor(storage: int, elements: int) -> str:
    return f'[[1,{storage},0,{elements},4,"cuda:0"]]'


def test_memory_by_hand():
    """A weight held before; two activations that overlap for one operator; numbers used again."""
    rows = [
        ("a", "[]", tensor(1, 1024)),  # makes 1
        (
            "b",
            f"[{tensor(1, 1024)[1:-1]},{tensor(9, 256)[1:-1]}]",
            tensor(2, 2048),
        ),  # 1 and weight 9 → 2
        ("c", tensor(2, 2048), tensor(1, 512)),  # 1 again: another tensor
    ]
    start = np.array([0, 10, 20])
    trace = ck.Trace.from_columns(
        {
            "name": [r[0] for r in rows],
            "type": [4] * 3,
            "is_cpu_op": [True] * 3,
            "tid": [1] * 3,
            "start_time_ns": start,
            "duration_ns": [10] * 3,
            "inputs_values": [r[1] for r in rows],
            "outputs_values": [r[2] for r in rows],
        }
    )
    (rank,) = memory(Run([trace])).ranks
    assert rank.before_bytes == 1024
    assert rank.peak_bytes == 1024 + 4096 + 8192  # weight, 1 and 2 while b runs
    assert rank.peak_ns == 10
    assert rank.tensors == 4


def test_traces_without_tensors_say_so(two_ranks):
    usage = memory(two_ranks)
    assert usage.peak_bytes == 0
    assert "no tensors" in usage.source


def test_a_long_timeline_is_thinned_to_the_highest_of_each_stretch():
    time = np.arange(5000)
    held_bytes = np.zeros(5000, np.int64)
    held_bytes[[17, 4321]] = 70, 90
    usage = thinned(time, held_bytes)
    assert len(usage) == 500
    assert {(m.time_ns, m.bytes) for m in usage if m.bytes} == {(17, 70), (4321, 90)}
    assert [m.bytes for m in thinned(time[:3], held_bytes[:3])] == [0, 0, 0]


def test_what_a_run_counted_stands_in_where_no_trace_accounts_for_it(two_ranks):
    counters = {"memory": {"rank": [0, 0, 1], "time_ns": [0, 5, 0], "bytes": [10, 40, 30]}}
    counted = Run(
        two_ranks.bodies,
        two_ranks.bindings,
        two_ranks.groups,
        times=two_ranks.times,
        timing=two_ranks.timing,
        counters=counters,
    )
    usage = memory(counted)
    assert (usage.peak_bytes, usage.peak_rank, usage.source) == (40, 0, "counters")
    assert usage.ranks[0].by_kind == {"other": 40}
    assert usage.ranks[0].peak_ns == 5
