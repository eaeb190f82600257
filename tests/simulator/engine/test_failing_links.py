"""Links that fail, slow down and recover: the fast engine, folded and not, against the slow one."""

from __future__ import annotations

import random

import pytest

from chakrakit.errors import DeadlockError
from chakrakit.simulator.engine import Disturbance, Fault, native
from chakrakit.simulator.engine.disturb import link_changes
from simulator.engine.test_oracle import chosen, times
from support.random_workloads import random_case
from support.slow_engine import Oracle

NS = 1000


def schedules(rng: random.Random, machine, span_ns: int) -> tuple[Fault, ...]:
    """Up to three links, each with moments at which it fails, slows down or is whole again."""
    faults = []
    links = machine.links
    for _ in range(rng.choice((1, 1, 2, 3))):
        link = rng.randrange(len(links))
        ends = (int(links.src[link]), int(links.dst[link]))
        last = rng.choice((1.0, 1.0, 1.0, 0.5, 0.0))
        factors = [rng.choice((0.0, 0.0, 0.25, 1.0, 2.0)) for _ in range(rng.randrange(4))] + [last]
        moments = sorted(rng.randrange(span_ns + 1) for _ in factors)
        faults += [Fault("link", ends, at, f) for at, f in zip(moments, factors, strict=True)]
    return tuple(faults)


def compare(seed: int) -> bool:
    """Whether the case ends; an error where the engines differ."""
    rng = random.Random(f"failing links {seed}")
    traces, machine, _ = random_case(seed)
    try:
        alone = native.run(traces, machine, native.SimulationOptions(fold=False))
    except DeadlockError:
        return False  # a workload that hangs without any fault
    faults = schedules(rng, machine, max(1, int(alone.end.max(initial=0)) // NS))
    disturbance = Disturbance(faults=faults)
    found = []
    for fold in (True, False):
        options = native.SimulationOptions(fold=fold, disturbance=disturbance)
        try:
            found.append(times(native.run(traces, machine, options), traces))
        except DeadlockError:
            found.append(None)
    slow = slow_times(traces, machine, alone, link_changes(machine, faults))
    assert found == [slow, slow], seed
    return slow is not None


def slow_times(traces, machine, alone, changes):
    """Start and end of each rank's rows by the slow engine; None where something never ends."""
    slowdown = machine.devices[0].comm_slowdown
    names = chosen(alone)
    run = Oracle(traces, machine, "flow", slowdown=slowdown, chosen=names, changes=changes).run()
    out: dict[int, tuple[list[int], list[int]]] = {r: ([], []) for r in traces.ranks}
    for node in run.nodes:
        out[node.rank][0].append(node.start)
        out[node.rank][1].append(node.end)
    return None if any(-1 in ends for _, ends in out.values()) else out


@pytest.mark.slow
def test_random_schedules_of_links_give_the_times_of_the_slow_engine() -> None:
    """`python tests/simulator/engine/test_failing_links.py 1000` runs more."""
    ended = [compare(seed) for seed in range(25)]
    assert any(ended)
    assert not all(ended)


def test_a_link_that_fails_and_recovers_while_nothing_else_runs() -> None:
    """1 s of transfer, of which 0.2 s are done when the link fails for 0.2 s."""
    from chakrakit import TraceBuilder, TraceSet
    from support.simulated import machine_of

    bodies = []
    for rank in (0, 1):
        t = TraceBuilder()
        move = t.send if rank == 0 else t.recv
        move("m", 0, 1, 10**9, tag=1)
        bodies.append(t.build())
    machine = machine_of("ring", 2)
    plain = native.run(TraceSet(bodies), machine, native.SimulationOptions())
    faults = (Fault("link", (0, 1), 1e6, 0.0), Fault("link", (0, 1), 3e6, 1.0))
    failing = native.SimulationOptions(disturbance=Disturbance(faults=faults))
    assert native.run(TraceSet(bodies), machine, failing).end.max() == plain.end.max() + 2 * 10**9


if __name__ == "__main__":
    import sys

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ended = sum(compare(seed) for seed in range(count))
    print(f"{count} schedules equal the slow engine; {ended} end, {count - ended} stop for good")
