"""One collective alone takes its closed form."""

from __future__ import annotations

import pytest

from chakrakit import CollectiveType
from chakrakit.simulator.engine import one_collective, run
from support.simulated import machine_of


@pytest.mark.parametrize("members", [(0, 1), (0, 1, 2, 3)])
def test_its_members_and_no_others_take_part(members):
    traces = one_collective(CollectiveType.ALL_GATHER, 1000, members)
    assert traces.ranks == members
    assert traces.groups["1"] == members
    assert traces.collectives.instances.to_pylist()[0]["comm_size"] == 1000


def test_it_takes_as_long_as_its_bytes_on_the_links():
    """All-gather of two over a switch of 10 GB/s: 10 kB to the other, up and down a link of 1 µs each."""
    machine = machine_of("switch", 2, bandwidth=10e9, latency=1e-6)
    done = run(one_collective(CollectiveType.ALL_GATHER, 10_000, (0, 1)), machine)
    assert done.makespan_ps == pytest.approx(1e12 * (10_000 / 10e9 + 2e-6), rel=0.01)
