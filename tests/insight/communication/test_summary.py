"""Communication: matched across ranks, waiting apart from transfer, bandwidths, who talks to whom."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.communication import communication
from chakrakit.insight.communication.stragglers import stragglers
from chakrakit.insight.communication.summary import bus_factor
from chakrakit.trace.sets import Times, run_of
from support.timed_collectives import collectives


def test_waiting_is_not_transfer():
    """Rank 1 is 4 µs late once; both move 1 MiB in 10 µs each time."""
    run = collectives([[0, 20_000], [4_000, 20_000]], [14_000, 30_000])
    (kind,) = communication(run).collectives
    assert (kind.type, kind.members, kind.count) == ("ALL_REDUCE", 2, 2)
    assert kind.transfer_ns == 10_000
    assert kind.total_wait_ns == 4_000
    assert kind.skew_ns == 2_000
    assert kind.algorithm_gbps == pytest.approx((1 << 20) / 10_000)
    assert kind.bus_gbps == pytest.approx(kind.algorithm_gbps)  # 2 (n-1)/n is 1 for two ranks


def test_an_all_gather_counts_what_everyone_ends_up_with():
    run = collectives([[0]] * 4, [1_000], 100, ck.CollectiveType.ALL_GATHER)
    (kind,) = communication(run).collectives
    assert kind.size_bytes == 400
    assert kind.bus_gbps == pytest.approx(0.4 * 3 / 4)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("ALL_REDUCE", 1.75),
        ("ALL_GATHER", 0.875),
        ("REDUCE_SCATTER", 0.875),
        ("ALL_TO_ALL", 0.875),
        ("BROADCAST", 1.0),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(kind, factor):
    assert bus_factor(ck.CollectiveType[kind], 8) == factor


def test_pairs_of_a_ring_and_of_an_all_to_all():
    ring = communication(collectives([[0]] * 4, [1_000], 400)).pairs
    assert {(p.src, p.dst): p.bytes for p in ring} == {
        (0, 1): 600,
        (1, 2): 600,
        (2, 3): 600,
        (3, 0): 600,
    }
    every = communication(collectives([[0]] * 3, [1_000], 300, ck.CollectiveType.ALL_TO_ALL)).pairs
    assert {(p.src, p.dst): p.bytes for p in every} == {
        (a, b): 100 for a in range(3) for b in range(3) if a != b
    }


def test_sizes_fall_into_powers_of_two():
    bins = communication(collectives([[0, 10], [0, 10]], [5, 15], 1500)).sizes
    assert [(b.low_bytes, b.count, b.bytes) for b in bins] == [(1024, 2, 3000)]


@pytest.mark.slow
def test_recordings_agree_with_the_set_of_collectives(linked):
    """As many instances as the traces' own matching finds, and every wait within its call."""
    run = linked("gpt_fsdp_tp_4")
    summary = communication(run)
    assert sum(c.count for c in summary.collectives) == run.collectives.instances.num_rows
    assert all(c.wait_ns >= 0 and c.transfer_ns > 0 for c in summary.collectives)
    assert {p.src for p in summary.pairs} == {0, 1, 2, 3}


def test_messages_are_paired(linked):
    summary = communication(linked("gpt_pp_2"))
    assert {(m.src, m.dst, m.count) for m in summary.messages} == {(0, 1, 2), (1, 0, 2)}


def test_no_communication_at_all():
    t = ck.TraceBuilder()
    t.comp("a", stream=7, duration_ns=5)
    run = run_of(ck.TraceSet([t.build()]), {0: Times(np.array([0]), np.array([5]))}, tick_ps=1000)
    summary = communication(run)
    assert (summary.collectives, summary.messages, summary.sizes, summary.pairs) == ([], [], [], [])
    assert stragglers(run).ranks == []
