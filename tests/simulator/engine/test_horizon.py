"""One clock of fifty days: what would go on longer is an error that names the node, in both networks."""

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Edges, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ChakraError, ConfigError, TraceError
from chakrakit.machines import read_machine
from chakrakit.machines.device import HORIZON_PS, MOST_NS
from chakrakit.simulator.engine import Disturbance, Fault, SimulationOptions, run

DAY = 86400 * 10**9


def simulate(traces, on, **options):
    """Nanoseconds until the last end."""
    return run(traces, on, SimulationOptions(**options)).makespan_ps / 1000


networks = pytest.mark.parametrize("network", ["flow", "analytical"])


def machine(size=2, software=None, **link):
    level = {"topology": "ring", "size": size, "bandwidth": "1 GB/s", "latency": "1 us", **link}
    return read_machine({"network": [level], "software": software or {}}, "m")


def alike(builder, ranks=2):
    bindings = {r: Binding(0) for r in range(ranks)}
    return TraceSet([builder.build()], bindings, Groups({"": range(ranks)}))


def all_reduce(size=10**9):
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, size)
    return alike(t)


def chain(ranks, days):
    """Each rank works for so long after a message from the one before."""
    bodies = []
    for rank in range(ranks):
        t = TraceBuilder()
        first = [t.recv("take", rank - 1, rank, 8)] if rank else []
        work = t.comp("work", duration_ns=int(days * DAY), deps=first)
        if rank < ranks - 1:
            t.send("give", rank, rank + 1, 8, deps=[work])
        bodies.append(t.build())
    return TraceSet(bodies)


def test_two_times_within_the_horizon_can_be_added():
    assert 2 * HORIZON_PS < 2**63


@networks
def test_ranks_that_wait_for_each_other_add_up(network):
    """The horizon is one for all ranks: eight of them, twenty days each, are a hundred and sixty."""
    with pytest.raises(TraceError, match=r"more than 50 days.*rank 2 at node \d+ \('work'\)"):
        simulate(chain(8, 20), machine(8), network=network)
    assert simulate(chain(8, 6), machine(8), network=network) > 48 * DAY


@networks
@pytest.mark.parametrize("more", [{}, {"share_compute": True}])
def test_rows_of_one_stream_add_up(network, more):
    t = TraceBuilder()
    for _ in range(3):
        t.comp("x", duration_ns=20 * DAY, stream=0)
    with pytest.raises(TraceError, match="more than 50 days"):
        simulate(TraceSet([t.build()]), machine(), network=network, **more)


@pytest.mark.parametrize("lag", [MOST_NS + 1, -MOST_NS - 1, 2**62, -(2**62), int(213.5 * DAY)])
def test_a_lag_beyond_the_clock(lag):
    t = TraceBuilder()
    a = t.comp("a", duration_ns=10)
    t.comp("b", duration_ns=10, deps=[a])
    trace = t.build()
    e = trace.edges
    edges = Edges(e.src, e.dst, e.kind, e.form, np.full(len(e.src), lag, np.int64), e.ctrl)
    with pytest.raises(ConfigError, match="the lag from node 0 to node 1 is"):
        simulate(TraceSet([trace.with_edges(edges)]), machine())


@networks
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"latency": "9000000 s"}, "latency: '9000000 s' is longer than the 50 days"),
        (
            {"software": {"collective_overhead": "1e8 s"}},
            "collective_overhead: '1e8 s' is longer than",
        ),
        ({"software": {"step_overhead": "1e8 s"}}, "step_overhead: '1e8 s' is longer than"),
        ({"bandwidth": 1}, "takes longer than 100,000 s at 1 bytes/s"),
        ({"latency": "2500000 s"}, "more than 50 days"),
    ],
)
def test_a_machine_too_slow_for_the_clock(network, settings, says):
    with pytest.raises(ChakraError, match=says):
        simulate(all_reduce(), machine(**settings), network=network)


@pytest.mark.parametrize(("network", "at"), [("flow", 0), ("flow", 10**6), ("analytical", 0)])
def test_a_link_at_almost_no_speed(network, at):
    """A billionth of 1 GB/s: a gigabyte takes thirty years, not no time."""
    slow = Disturbance(faults=[Fault("link", (0, 1), at, 1e-9)])
    with pytest.raises(TraceError, match=r"more than 50 days.*'sum'"):
        simulate(all_reduce(), machine(), network=network, disturbance=slow)


@networks
def test_a_device_at_almost_no_speed_that_recovers_does_not_count(network):
    t = TraceBuilder()
    t.comp("x", duration_ns=10**9)
    faults = [Fault("device", 0, 0, 1e-12), Fault("device", 0, 5 * 10**8, 1.0)]
    done = simulate(alike(t, 1), machine(), network=network, disturbance=Disturbance(faults=faults))
    assert done == pytest.approx(1.5e9, rel=1e-6)
    with pytest.raises(TraceError, match="more than 50 days"):
        simulate(
            alike(t, 1), machine(), network=network, disturbance=Disturbance(faults=faults[:1])
        )


def test_disturbed_beyond_the_clock():
    t = TraceBuilder()
    t.comp("x", duration_ns=DAY)
    with pytest.raises(ConfigError, match="an operation of rank 0 is"):
        simulate(alike(t), machine(), disturbance=Disturbance(stragglers={0: 1e5}))
