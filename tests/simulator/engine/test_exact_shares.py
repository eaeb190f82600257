"""Times of shared links against fractions: what quotients of doubles are off by is no picosecond."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from chakrakit.simulator.engine import native
from simulator.engine.test_oracle import chosen, times
from support.random_workloads import random_case
from support.slow_engine import Oracle
from support.slow_parts import Flow, components

DIRECT = native.Algorithms({"all-gather": "direct"})


class Exact(Oracle):
    """The slow engine with shares of links in fractions."""

    def _share_links(self) -> None:
        capacity = {n: Fraction(float(b)) / 10**12 for n, b in enumerate(self._bandwidths)}
        for part in components(self._active()):
            for flow, rate in fair(part, capacity).items():
                if flow.rate == rate:
                    continue
                done = Fraction(flow.rate) * (self.now - flow.since)
                flow.remaining = max(Fraction(0), Fraction(flow.remaining) - done)
                flow.rate, flow.since = rate, self.now
                flow.ends = self.now + math.ceil(flow.remaining / rate)

    def __init__(self, traces, machine, **more) -> None:
        self._bandwidths = machine.links.bandwidth
        super().__init__(traces, machine, "flow", **more)


def fair(flows: list[Flow], capacity: dict[int, Fraction]) -> dict[Flow, Fraction]:
    """Progressive filling."""
    left = {link: capacity[link] for flow in flows for link in flow.links}
    rates: dict[Flow, Fraction] = {}
    while len(rates) < len(flows):
        waiting = [flow for flow in flows if flow not in rates]
        users = {k: sum(k in flow.links for flow in waiting) for k in left}
        shares = {k: left[k] / n for k, n in users.items() if n}
        least = min(shares.values())
        full = {k for k, share in shares.items() if share == least}
        for flow in waiting:
            if full & {*flow.links}:
                rates[flow] = least
                for link in flow.links:
                    left[link] -= least
    return rates


@pytest.mark.parametrize("seed", [3, 8, 300987])
def test_ends_of_shared_transfers_are_those_of_fractions(seed: int) -> None:
    """In the last case a share was 1e-16 too small, and everything after it a picosecond late."""
    traces, machine, _ = random_case(seed)
    fast = native.run(traces, machine, native.SimulationOptions(algorithms=DIRECT))
    slowdown = machine.devices[0].comm_slowdown
    exact = Exact(traces, machine, algorithms=DIRECT, chosen=chosen(fast), slowdown=slowdown)
    slow = exact.run()
    ends = {r: [n.end for n in slow.nodes if n.rank == r] for r in traces.ranks}
    assert {r: e for r, (_, e) in times(fast, traces).items()} == ends
