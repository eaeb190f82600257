"""Which algorithm a call gets: `auto` looks at all groups that use the network together."""

import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator.collectives import ALGORITHMS, Algorithms
from chakrakit.simulator.engine import SimulationOptions, native, run
from support.simulated import machine_of


def tree(arity, oversubscription):
    level = {
        "topology": "fat-tree",
        "arity": arity,
        "bandwidth": "100 Gb/s",
        "latency": "1 us",
        "oversubscription": oversubscription,
    }
    return parse_machine({"network": [level]}, "tree")


def strided(ranks, stride):
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 64 << 20, pg_name="g")
    groups = {f"g{i}": list(range(i, ranks, stride)) for i in range(stride)}
    bindings = {r: Binding(0, {"g": g}) for g, members in groups.items() for r in members}
    return TraceSet([t.build()], bindings, Groups(groups))


@pytest.mark.first(4)
@pytest.mark.parametrize("oversubscription", [1, 2, 4, 8])
@pytest.mark.parametrize(("arity", "stride"), [([8, 8], 8), ([16, 4], 4), ([8, 4], 2)])
def test_groups_across_an_oversubscribed_tree_get_the_fastest_algorithm(
    arity, stride, oversubscription
):
    machine, traces = tree(arity, oversubscription), strided(arity[0] * arity[1], stride)
    times = {}
    for name in ("auto", "ring", "halving-doubling", "double-tree", "direct"):
        options = SimulationOptions(algorithms=Algorithms({"all-reduce": name}))
        assert name == "auto" or name in ALGORITHMS["all-reduce"]
        times[name] = run(traces, machine, options).makespan_ps
    auto = times.pop("auto")
    assert auto <= 1.02 * min(times.values()), times


def test_the_choice_does_not_depend_on_folding():
    machine, traces = tree([8, 8], 4), strided(64, 8)
    folded = run(traces, machine)
    apart = run(traces, machine, SimulationOptions(fold=False))
    assert folded.makespan_ps == apart.makespan_ps
    assert set(folded.instances.algorithm) == set(apart.instances.algorithm)


def test_uneven_all_to_all_takes_as_long_as_its_largest_port():
    bodies = []
    for rank in range(3):
        t = TraceBuilder()
        t.collective(
            "a",
            CollectiveType.ALL_TO_ALL,
            4000,
            in_splits=[2000, 1000, 1000] if rank else [0, 3000, 1000],
        )
        bodies.append(t.build())
    out = native.run(TraceSet(bodies), machine_of("switch", 3, latency=0, bandwidth=1e12))
    assert out.makespan_ps == pytest.approx(4000, rel=1e-3)  # member 1 gets 3,000 and 1,000
