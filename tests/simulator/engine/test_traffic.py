"""What links carry over time: no more than their bandwidth at any time, and all bytes in the end."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit import CollectiveType
from chakrakit.errors import DeadlockError
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import SimulationOptions, one_collective, run
from chakrakit.simulator.engine.disturb import Disturbance, Fault
from support.random_workloads import contended_case, crowded_case, random_case
from support.simulated import machine_of


def over_time(outcome, machine, parts=97):
    """The rates by link and part, checked against the bandwidths and the bytes of the run."""
    borders = np.linspace(0, outcome.makespan_ps, parts + 1).astype(np.int64)
    rates = outcome.traffic.rates(borders)
    carried = rates @ (np.diff(borders) * 1e-12)
    np.testing.assert_allclose(carried, outcome.link_bytes, rtol=1e-9, atol=1e-3)
    # A picosecond's bytes: ends are whole picoseconds.
    least = (np.diff(borders) * 1e-12).min()
    most = machine.links.bandwidth[:, None] * (1 + 1e-9 + 1e-12 / least * 10)
    assert (rates <= most).all(), (rates / machine.links.bandwidth[:, None]).max()
    return rates


KINDS = [
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.BROADCAST,
    CollectiveType.ALL_TO_ALL,
]


@pytest.mark.parametrize(
    "name",
    [
        "dgx-a100:2",
        "dgx-h100:3",
        "dgx-b200:2",
        "l40s-pcie:2",
        "rtx-pro-6000",
        "mi300x:2",
        "tpu-v5e",
    ],
)
def test_single_collectives(name):
    machine = ck.load_machine(name)
    for members in (tuple(range(min(machine.size, 32))), tuple(range(min(machine.size, 32) - 1))):
        for kind in KINDS:
            for size in (20_000, 200_000_000):
                over_time(run(one_collective(kind, size, members), machine), machine)


@pytest.mark.parametrize("algorithm", ["ring", "double-tree", "halving-doubling", "direct"])
def test_algorithms_that_are_asked_for(algorithm):
    machine = ck.load_machine("dgx-h100:2")
    options = SimulationOptions(algorithms=Algorithms({"all-reduce": algorithm}))
    traces = one_collective(CollectiveType.ALL_REDUCE, 50_000_000, tuple(range(16)))
    over_time(run(traces, machine, options), machine)


@pytest.mark.parametrize("seed", range(25))
def test_collectives_and_messages_that_overlap(seed):
    for case in (random_case, contended_case, crowded_case):
        traces, machine, *_ = case(seed)
        try:
            outcome = run(traces, machine)
        except DeadlockError:
            continue  # random messages may wait for each other
        if outcome.makespan_ps > 1000:
            over_time(outcome, machine)


PLANS = {
    "dgx-h100:1": {"dp": 2, "tp": 2, "pp": 2},
    "dgx-h100:4": {"dp": 4, "tp": 4, "pp": 2},
    "dgx-a100:2": {"dp": 16},
    "mi300x:2": {"dp": 4, "tp": 4},
}


@pytest.mark.parametrize("name", PLANS)
def test_a_training_step(name):
    made = ck.generate(
        model="llama-3.2-1b", layers=2, seq=512, global_batch=16, micro_batch=1, **PLANS[name]
    )
    machine = ck.load_machine(name)
    rates = over_time(run(made.traces, machine), machine)
    assert rates.max() > 1e9


def test_transfers_that_share_a_link_share_its_bandwidth():
    """Two messages from one device, one of them twice as long: together they never pass 10 GB/s."""
    machine = machine_of("switch", 3, bandwidth=10e9, latency=0.0)
    sender, receivers = ck.TraceBuilder(), [ck.TraceBuilder(), ck.TraceBuilder()]
    for peer, size in ((1, 10_000_000), (2, 20_000_000)):
        sender.send(f"to {peer}", 0, peer, size)
        receivers[peer - 1].recv("from 0", 0, peer, size)
    traces = ck.TraceSet.of([sender.build(), *(r.build() for r in receivers)])
    outcome = run(traces, machine)
    rates = over_time(outcome, machine, parts=6)
    out = int(np.argmax(outcome.link_bytes))
    assert rates[out] == pytest.approx([10e9] * 6)  # full all the time
    half = sorted(rates[:, 0][rates[:, 0] > 0])
    assert half == pytest.approx([5e9, 5e9, 10e9])  # while both are on their way
    assert sorted(rates[:, 5][rates[:, 5] > 0]) == pytest.approx([10e9, 10e9])


def test_a_link_that_gets_slower_carries_less():
    machine = machine_of("switch", 2, bandwidth=10e9, latency=0.0)
    traces = one_collective(CollectiveType.BROADCAST, 10_000_000, (0, 1))
    link = int(np.argmax(run(traces, machine).link_bytes))
    ends = (int(machine.links.src[link]), machine.vertex_names()[machine.links.dst[link]])
    fault = Fault("link", ends, 500_000.0, 0.5)
    outcome = run(traces, machine, SimulationOptions(disturbance=Disturbance(faults=(fault,))))
    rates = over_time(outcome, machine, parts=3)
    assert rates[link] == pytest.approx([10e9, 5e9, 5e9], rel=1e-6)
