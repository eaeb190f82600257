"""The two network back ends against closed forms."""

import math

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, core
from chakrakit.machines import parse_machine
from chakrakit.simulator.collectives import ALGORITHMS, Algorithms
from chakrakit.simulator.engine import Disturbance, Fault, native
from support.simulated import GB, collective, machine_of, seconds


def rates(capacity, flows):
    offsets = np.r_[0, np.cumsum([len(f) for f in flows])].astype(np.int64)
    links = np.array([x for f in flows for x in f], np.int32)
    none = np.zeros(0, np.int32)
    return core.sim_fair_rates(np.array(capacity, float), offsets, links, none, none)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100])
def test_flows_on_one_link_get_equal_shares(n):
    np.testing.assert_allclose(rates([10.0], [[0]] * n), 10 / n, rtol=1e-12)


@pytest.mark.parametrize("hops", [1, 2, 5, 20])
def test_parking_lot(hops):
    """One flow over all links, one more on each: everyone gets half."""
    np.testing.assert_allclose(
        rates([8.0] * hops, [list(range(hops))] + [[i] for i in range(hops)]), 4.0
    )


def test_textbook_example():
    """Bertsekas and Gallager's kind: the tightest link first, what is left to the others."""
    found = rates([1.0, 2.0, 6.0], [[0, 1], [0], [1, 2], [2]])
    np.testing.assert_allclose(found, [0.5, 0.5, 1.5, 4.5], rtol=1e-12)


def test_incast_is_limited_by_the_receiver():
    found = rates([10.0] * 5 + [10.0], [[i, 5] for i in range(5)])
    np.testing.assert_allclose(found, 2.0, rtol=1e-12)


def test_no_link_carries_more_than_it_can_and_every_flow_has_a_full_link():
    rng = np.random.default_rng(0)
    for _ in range(200):
        links = int(rng.integers(1, 8))
        capacity = rng.uniform(1, 10, links)
        flows = [
            sorted(rng.choice(links, int(rng.integers(1, links + 1)), replace=False))
            for _ in range(int(rng.integers(1, 12)))
        ]
        found = rates(capacity, flows)
        load = np.zeros(links)
        for f, r in zip(flows, found, strict=True):
            load[f] += r
        assert (load <= capacity * (1 + 1e-9)).all()
        for f, r in zip(flows, found, strict=True):
            full = [x for x in f if load[x] >= capacity[x] * (1 - 1e-9)]
            assert any(
                r >= max(found[i] for i, g in enumerate(flows) if x in g) * (1 - 1e-9) for x in full
            )


def messages(pairs, size):
    """Each rank sends and receives what the pairs say, all at once."""
    ranks = max(max(p) for p in pairs) + 1
    bodies = []
    for rank in range(ranks):
        t = TraceBuilder()
        for tag, (a, b) in enumerate(pairs):
            if a == rank:
                t.send("s", a, b, size, tag=tag)
            if b == rank:
                t.recv("r", a, b, size, tag=tag)
        bodies.append(t.build())
    return TraceSet(bodies, None, Groups({"": range(ranks)}))


def test_messages_from_many_to_one_take_as_many_times_as_long():
    size = 10**11
    for n in (1, 2, 5, 9):
        took = seconds(
            messages([(i + 1, 0) for i in range(n)], size), machine_of("switch", n + 1, latency=0)
        )
        assert took == pytest.approx(n * size / (10 * GB), rel=1e-9)


def test_a_flow_speeds_up_when_another_ends():
    """Two messages of 1 and 3 units into one port: the short ends at 2, the long at 4."""
    t = [TraceBuilder() for _ in range(3)]
    for rank, size in ((1, 10**11), (2, 3 * 10**11)):
        t[rank].send("s", rank, 0, size)
        t[0].recv("r", rank, 0, size)
    out = native.run(TraceSet([b.build() for b in t]), machine_of("switch", 3, latency=0))
    assert sorted(out.end * 1e-12)[-1] == pytest.approx(40, rel=1e-9)
    assert sorted(out.end * 1e-12)[0] == pytest.approx(20, rel=1e-9)


STEPS = {
    ("all-reduce", "ring"): lambda n: (2 * (n - 1), 2 * (n - 1) / n),
    ("all-reduce", "direct"): lambda n: (2, 2 / n),
    ("all-reduce", "halving-doubling"): lambda n: (2 * math.ceil(math.log2(n)), 2 * (n - 1) / n),
    ("reduce-scatter", "ring"): lambda n: (n - 1, (n - 1) / n),
    ("reduce-scatter", "direct"): lambda n: (1, 1 / n),
    ("reduce-scatter", "halving-doubling"): lambda n: (math.ceil(math.log2(n)), (n - 1) / n),
    ("all-gather", "ring"): lambda n: (n - 1, n - 1),
    ("all-gather", "direct"): lambda n: (1, 1),
    ("all-gather", "halving-doubling"): lambda n: (math.ceil(math.log2(n)), n - 1),
    ("all-to-all", "direct"): lambda n: (1, 1 / n),
    ("all-to-all", "pairwise"): lambda n: (n - 1, (n - 1) / n),
    ("broadcast", "tree"): lambda n: (math.ceil(math.log2(n)), math.ceil(math.log2(n))),
    ("broadcast", "direct"): lambda n: (1, 1),
    ("reduce", "tree"): lambda n: (math.ceil(math.log2(n)), math.ceil(math.log2(n))),
    ("gather", "direct"): lambda n: (1, 1),
    ("scatter", "direct"): lambda n: (1, 1 / n),
    ("barrier", "dissemination"): lambda n: (math.ceil(math.log2(n)), 0),
}
"""Steps, and how many times the size goes over a link, where nothing meets."""
KINDS = {
    "all-reduce": 0,
    "reduce": 1,
    "all-gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all-to-all": 6,
    "reduce-scatter": 7,
    "barrier": 9,
}


@pytest.mark.first(3)
@pytest.mark.parametrize(("kind", "name"), STEPS)
def test_time_is_the_closed_form_where_every_pair_has_a_link(kind, name):
    for n in (2, 3, 5, 8, 12, 16, 31, 48, 64):
        machine = machine_of("full", n)
        size = 0 if kind == "barrier" else 64 * 10**9
        traces = collective(CollectiveType(KINDS[kind]), size, n)
        steps, share = STEPS[kind, name](n)
        expected = steps * 1e-6 + share * size / (10 * GB)
        algorithms = Algorithms({kind: name})
        for network in ("flow", "analytical"):
            assert seconds(traces, machine, network, algorithms=algorithms) == pytest.approx(
                expected, rel=1e-9
            )


@pytest.mark.parametrize("n", [2, 3, 6, 8, 17, 32, 64])
def test_double_tree_closed_form_without_contention(n):
    from chakrakit.simulator.collectives.algorithms import double_tree, tree_all_reduce

    size, chunks = 64 * 10**9, 16
    height = max(t.height for t in double_tree(n))
    expected = (chunks + 2 * height - 1) * (1e-6 + size / 2 / chunks / (10 * GB))
    took = seconds(
        collective(CollectiveType.ALL_REDUCE, size, n),
        machine_of("full", n),
        "analytical",
        custom=lambda *_: tree_all_reduce(n, chunks),
    )
    assert took == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [2, 4, 7, 64])
def test_a_reducing_switch_takes_one_pass(n):
    machine = machine_of("switch", n, reduction=True)
    size = 10**11
    for kind, share in ((CollectiveType.ALL_REDUCE, 1), (CollectiveType.REDUCE_SCATTER, 1)):
        for network in ("flow", "analytical"):
            took = seconds(
                collective(kind, size, n),
                machine,
                network,
                algorithms=Algorithms({"all-reduce": "in-switch", "reduce-scatter": "in-switch"}),
            )
            assert took >= share * size / (10 * GB)
            assert took == pytest.approx(share * size / (10 * GB), rel=1e-6)


@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (8, 3)])
def test_hierarchical_all_reduce_closed_form(shape):
    inner, outer = shape
    machine = parse_machine(
        {
            "network": [
                {"topology": "ring", "size": inner, "bandwidth": 100 * GB, "latency": 1e-6},
                {"topology": "switch", "size": outer, "bandwidth": 10 * GB, "latency": 1e-6},
            ]
        },
        "two",
    )
    size, n = 10**11, inner * outer
    ways = 2 if inner > 2 else 1  # a circle of two is one cable
    expected = 2 * (
        (inner - 1) * (1e-6 + size / inner / ways / (100 * GB))
        + (outer - 1) * (2e-6 + size / inner / outer / (10 * GB))
    )
    for network in ("flow", "analytical"):
        took = seconds(
            collective(CollectiveType.ALL_REDUCE, size, n),
            machine,
            network,
            algorithms=Algorithms({"all-reduce": "hierarchical"}),
        )
        assert took == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_back_ends_agree_without_contention_and_flow_is_never_faster():
    for kind, names in ALGORITHMS.items():
        for name in names:
            if name in ("in-switch", "hierarchical"):
                continue
            traces = collective(CollectiveType(KINDS[kind]), 0 if kind == "barrier" else 10**6, 6)
            for topology in ("full", "switch", "ring"):
                algorithms = Algorithms({kind: name})
                flow = seconds(traces, machine_of(topology, 6), algorithms=algorithms)
                free = seconds(traces, machine_of(topology, 6), "analytical", algorithms=algorithms)
                assert flow >= free * (1 - 1e-9)
                if topology == "full" and name != "double-tree":
                    assert flow == pytest.approx(free, rel=1e-9)


@pytest.mark.parametrize("over", [1, 2, 4, 8])
@pytest.mark.parametrize("routing", ["one trunk", "modulo"])
def test_an_oversubscribed_tree_slows_all_to_all_by_what_the_cut_predicts(over, routing):
    """16 ports on leaves of 4: 12 of 15 messages of each port cross the cut, 48 over a trunk of 4/over."""
    extra = {"uplinks": [1]} if routing == "one trunk" else {"uplinks": [4], "routing": "modulo"}
    machine = machine_of("fat-tree", 16, latency=0, arity=[4, 4], oversubscription=over, **extra)
    size = 16 * 10**11
    took = seconds(
        collective(CollectiveType.ALL_TO_ALL, size, 16),
        machine,
        algorithms=Algorithms({"all-to-all": "direct"}),
    )
    port, cut = 15, 48 * over / 4
    assert took == pytest.approx(max(port, cut) * size / 16 / (10 * GB), rel=1e-9)


def test_bytes_are_conserved_on_every_link():
    """What leaves a device is what it sends; what enters it is what it gets; switches keep nothing."""
    for topology in ("switch", "ring", "full", "fat-tree"):
        more = {"arity": [2, 4]} if topology == "fat-tree" else {}
        machine = machine_of(topology, 8, **more)
        for kind, name in (
            ("all-reduce", "ring"),
            ("all-to-all", "direct"),
            ("all-reduce", "halving-doubling"),
        ):
            out = native.run(
                collective(CollectiveType(KINDS[kind]), 8 * 10**6, 8),
                machine,
                native.SimulationOptions(algorithms=Algorithms({kind: name})),
            )
            links, moved = machine.links, out.link_bytes
            leave = np.bincount(links.src, moved, minlength=machine.vertices)
            enter = np.bincount(links.dst, moved, minlength=machine.vertices)
            np.testing.assert_allclose(leave, enter, rtol=1e-12)
            if topology in ("switch", "full"):
                share = 2 * 7 / 8 if kind == "all-reduce" else 7 / 8
                np.testing.assert_allclose(leave[:8], share * 8e6, rtol=1e-12)


def test_a_slow_link_slows_what_crosses_it_from_then_on():
    size = 10**10
    machine = machine_of("switch", 2, latency=0)
    half = Disturbance(faults=(Fault("link", (0, "switch 0.0"), 0.5e9, 0.5),))
    took = seconds(messages([(0, 1)], size), machine, disturbance=half)
    assert took == pytest.approx(0.5 + 0.5 / 0.5, rel=1e-9)


def test_a_link_that_slows_down_in_the_middle_of_skipped_rounds():
    """Six rounds of 1 s; after 2.5 one link halves: half a round takes 1 more, and three take 2 each."""
    size = 4 * 10**10
    slow = Disturbance(faults=(Fault("link", (0, 1), 2.5e9, 0.5),))
    options = {"algorithms": Algorithms({"all-reduce": "ring"}), "disturbance": slow}
    took = seconds(
        collective(CollectiveType.ALL_REDUCE, size, 4), machine_of("ring", 4, latency=0), **options
    )
    assert took == pytest.approx(9.5, rel=1e-9)


def test_a_plan_known_from_before_is_put_back_too():
    """Twice the same all-reduce; a link halves in the middle of the second, which was skipped whole."""
    t = TraceBuilder()
    for _ in range(2):
        t.collective("c", CollectiveType.ALL_REDUCE, 4 * 10**10, stream=1)
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(4)}, Groups({"": range(4)}))
    slow = Disturbance(faults=(Fault("link", (0, 1), 8.5e9, 0.5),))
    options = {"algorithms": Algorithms({"all-reduce": "ring"}), "disturbance": slow}
    assert seconds(traces, machine_of("ring", 4, latency=0), **options) == pytest.approx(
        15.5, rel=1e-9
    )


def test_rounds_that_are_skipped_are_put_back_when_somebody_comes():
    """A long ring all-reduce met by a message half way: as if every round had been simulated."""
    from support.slow_engine import Oracle

    n, t = 4, TraceBuilder()
    t.collective("ar", CollectiveType.ALL_REDUCE, 40_000, stream=1)
    t.collective("ar", CollectiveType.ALL_REDUCE, 40_000, stream=1)
    wait = t.comp("w", duration_ns=9_000, stream=2)
    t.collective("ag", CollectiveType.ALL_GATHER, 3_000, pg_name="in", deps=[wait], stream=3)
    groups = Groups({"": range(n), "a": [0, 1], "b": [2, 3]})
    traces = TraceSet([t.build()], {i: Binding(0, {"in": "ab"[i // 2]}) for i in range(n)}, groups)
    machine = machine_of("ring", n, bandwidth=10 * GB)
    algorithms = Algorithms({"all-reduce": "ring"})
    fast = native.run(traces, machine, native.SimulationOptions(fold=False, algorithms=algorithms))
    slow = Oracle(traces, machine, "flow", algorithms).run()
    assert fast.end.tolist() == [node.end for node in slow.nodes]
