"""Classes and weights on links, against an oracle that fills links in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from chakrakit import CollectiveType, Groups, TraceBuilder, TraceSet, core, simulate
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes.comm import Comm
from chakrakit.simulator.engine import native
from support.simulated import GB, machine_of


def oracle(capacity, flows, priority, weight):
    """Classes from the highest down; in each, all levels rise together until a link is full."""
    left = [Fraction(c) for c in capacity]
    rates = [Fraction(0)] * len(flows)
    for c in sorted(set(priority), reverse=True):
        rising = {f for f in range(len(flows)) if priority[f] == c}
        while rising:
            heavy = [
                sum(weight[f] for f in rising if link in flows[f]) for link in range(len(left))
            ]
            step = min(left[i] / heavy[i] for i in range(len(left)) if heavy[i])
            for f in rising:
                rates[f] += weight[f] * step
                for link in flows[f]:
                    left[link] -= weight[f] * step
            rising -= {f for f in rising if any(left[link] == 0 for link in flows[f])}
    return [float(r) for r in rates]


def random_set(rng):
    links, count = int(rng.integers(1, 9)), int(rng.integers(1, 13))
    flows = [
        sorted(rng.choice(links, int(rng.integers(1, min(links, 4) + 1)), replace=False).tolist())
        for _ in range(count)
    ]
    classes, heaviest = int(rng.integers(1, 5)), int(rng.choice([1, 4, 100]))
    return (
        rng.integers(0, 20, links).tolist(),
        flows,
        rng.integers(0, classes, count).tolist(),
        rng.integers(1, heaviest + 1, count).tolist(),
    )


def rates(capacity, flows, priority, weight):
    offsets = np.r_[0, np.cumsum([len(f) for f in flows])].astype(np.int64)
    links = np.array([x for f in flows for x in f], np.int32)
    ranks = (np.array(priority, np.int32), np.array(weight, np.int32))
    return core.sim_fair_rates(np.array(capacity, float), offsets, links, *ranks)


@pytest.mark.parametrize("sets", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_rates_are_those_of_exact_filling(sets):
    rng = np.random.default_rng(sets)
    for _ in range(sets):
        case = random_set(rng)
        np.testing.assert_allclose(rates(*case), oracle(*case), rtol=1e-9, atol=1e-12)


def test_ranks_the_core_cannot_hold_are_refused():
    with pytest.raises(ValueError, match=r"job_weight\[0\] is 0; it must be from 1 to 65535"):
        rates([1], [[0]], [0], [0])
    with pytest.raises(ValueError, match=r"job_priority\[0\] is 64; it must be from 0 to 63"):
        rates([1], [[0]], [64], [1])


def two_messages(first=None, second=None):
    """Ranks 1 and 2 send 10 GB each to rank 0 at once; a port takes 10 GB/s."""
    t = [TraceBuilder() for _ in range(3)]
    for rank, fields in ((1, first or {}), (2, second or {})):
        t[rank].send("s", rank, 0, 10 * GB, **fields)
        t[0].recv("r", rank, 0, 10 * GB)
    return TraceSet([b.build() for b in t], None, Groups({"": range(3)}))


def ends(traces, network="flow"):
    machine = machine_of("switch", 3, latency=0)
    out = native.run(traces, machine, native.SimulationOptions(network=network, fold=False))
    return [round(e * 1e-12, 6) for e in out.end[2:].tolist()]


def test_a_higher_class_goes_first_and_the_lower_waits():
    assert ends(two_messages()) == [2, 2]
    assert ends(two_messages({"link_priority": 1})) == [1, 2]
    assert ends(two_messages({"link_priority": -1})) == [2, 1]


def test_weights_share_a_class():
    """Three quarters of the port until 10 GB are there, then all of it for the rest of the other."""
    assert ends(two_messages({"link_weight": 3})) == [pytest.approx(4 / 3, rel=1e-5), 2]
    same = {"link_weight": 3}
    assert ends(two_messages(same, same)) == ends(two_messages())


def test_an_analytical_network_shares_nothing_and_says_so():
    assert ends(two_messages({"link_priority": 1}), "analytical") == [1, 1]
    for network, said in (("analytical", 1), ("flow", 0)):
        run = simulate(two_messages({"link_priority": 1}), machine_of("switch", 3), network=network)
        assert sum("link_priority" in note for note in run.summary.notes) == said


def test_the_ends_of_a_message_and_members_of_a_collective_agree():
    t = [TraceBuilder(), TraceBuilder()]
    t[0].send("s", 0, 1, 8, link_priority=1)
    t[1].recv("r", 0, 1, 8, link_priority=2)
    with pytest.raises(TraceError, match="members give link_priority as 1 and 2; all of them must"):
        native.run(TraceSet([b.build() for b in t]), machine_of("switch", 2))
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 8, link_weight=70_000)
    with pytest.raises(
        TraceError, match="link_weight is 70000; it should be a whole number from 1"
    ):
        native.run(TraceSet([t.build()] * 2), machine_of("switch", 2))


def test_more_classes_than_the_core_has_are_refused():
    t = [TraceBuilder(), TraceBuilder()]
    for i in range(65):
        t[0].send("s", 0, 1, 8, tag=i, link_priority=i)
        t[1].recv("r", 0, 1, 8, tag=i)
    with pytest.raises(TraceError, match="65 different values of link_priority; give at most 64"):
        native.run(TraceSet([b.build() for b in t]), machine_of("switch", 2))


def test_a_pass_sets_them_by_selection_and_the_summary_shows_the_classes():
    t = [TraceBuilder(), TraceBuilder()]
    for rank, body in enumerate(t):
        body.collective("c", CollectiveType.ALL_REDUCE, GB, stream=0)
        (body.recv if rank else body.send)("m", 0, 1, GB, stream=1)
    traces = TraceSet([b.build() for b in t], None, Groups({"": range(2)}))
    machine = machine_of("switch", 2, latency=0)
    assert simulate(traces, machine).summary.link_classes == []
    ranked = traces | Comm("prioritize", types=("all-reduce",), priority=1, weight=2)
    high, low = simulate(ranked, machine).summary.link_classes
    assert (high.priority, high.weight, high.operations, high.bytes) == (1, 2, 1, GB)
    assert (low.priority, low.weight, low.operations, low.bytes) == (0, 1, 1, GB)
    # The all-reduce moves its gigabyte as if alone: 0.1 s there and back in a ring of two.
    assert high.mean_ns == pytest.approx(0.1e9, rel=1e-6)
    assert low.mean_ns == pytest.approx(0.2e9, rel=1e-6)


def test_a_pass_that_sets_neither_is_refused():
    with pytest.raises(ConfigError, match="prioritize needs priority or weight"):
        Comm("prioritize")
    with pytest.raises(ConfigError, match="weight is 0; it should be from 1"):
        Comm("prioritize", weight=0)
