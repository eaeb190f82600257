"""Groups that have to be set up before their first collective."""

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, simulate
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import GROUP_COSTS, GroupCost

GB = 10**9


def machine(groups=None):
    level = {"topology": "full", "size": 4, "bandwidth": "10 GB/s"}
    software = {"collective_overhead": "1 ms", **({"groups": groups} if groups else {})}
    return parse_machine({"network": [level], "software": software}, "m")


def traces(*calls):
    """Ranks of two pairs and of all; each call names a group in the body."""
    t, before = TraceBuilder(), []
    for name in calls:
        before = [t.collective("c", CollectiveType.BARRIER, 0, pg_name=name, deps=before)]
    groups = {"": range(4), "all": range(4), "p0": range(2), "p1": range(2, 4)}
    bindings = {r: Binding(0, {"all": "all", "pair": f"p{r // 2}"}) for r in range(4)}
    return TraceSet([t.build()], bindings, Groups(groups))


def test_new_smaller_and_equal_groups():
    cost = GroupCost(create=1.0, member=0.1, shrink=0.3, reuse=0.01)
    groups = [np.array(m) for m in ([0, 1], [0, 1, 2, 3], [2, 3], [0, 1], [4, 5])]
    assert cost.seconds(groups) == pytest.approx([0.3, 1.4, 0.3, 0.01, 1.2])
    anew = GroupCost(create=1.0, member=0.1)
    assert anew.seconds(groups) == pytest.approx([1.2, 1.4, 1.2, 0.0, 1.2])


def test_the_first_collective_of_a_group_waits_for_it():
    plain = simulate(traces("all", "pair", "pair"), machine()).summary
    cost = {"create": "1 s", "member": "100 ms", "shrink": "300 ms"}
    found = simulate(traces("all", "pair", "pair"), machine(cost)).summary
    # 1.4 s for all four, 0.3 s for both pairs at the same time; the second of a pair is free.
    assert found.makespan_ns - plain.makespan_ns == pytest.approx(1.7e9)
    assert found.group_setup_ns == pytest.approx((1.4 + 2 * 0.3) * 1e9)
    assert plain.group_setup_ns == 0


def test_groups_that_nothing_uses_are_not_set_up():
    found = simulate(traces("pair"), machine({"create": "1 s", "shrink": "300 ms"})).summary
    assert found.group_setup_ns == pytest.approx(2e9)


def test_measured_costs_by_name():
    gloo = simulate(traces("pair"), machine("gloo")).summary
    assert gloo.group_setup_ns == pytest.approx(2 * (9.9e-3 + 2 * 0.63e-3) * 1e9)
    assert GROUP_COSTS["nccl"].seconds([np.arange(8), np.arange(2)]) == [2.56, 0.15]
