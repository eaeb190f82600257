"""Policies are asked which row a free lane runs, and which algorithm a collective uses."""

import pytest

from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.simulator.engine import native
from support.simulated import collective, machine_of, one_device

AR = CollectiveType.ALL_REDUCE


class LongestFirst:
    def pick(self, ready, now_ps):
        return max(range(len(ready)), key=lambda i: ready[i].duration_ps)


def test_a_dispatch_policy_decides():
    t = TraceBuilder()
    t.comp("short", duration_ns=1)
    t.comp("long", duration_ns=100)
    traces = TraceSet([t.build()])
    assert native.run(traces, one_device()).start.tolist() == [0, 1000]
    out = native.run(traces, one_device(), native.SimulationOptions(dispatch=LongestFirst()))
    assert out.start.tolist() == [100_000, 0]


class LateFirst:
    """Lets "early" wait until "late" has run."""

    def __init__(self):
        self.late = False

    def pick(self, ready, now_ps):
        names = [row.name for row in ready]
        if "late" in names:
            self.late = True
            return names.index("late")
        return None if names == ["early"] and not self.late else 0


def test_a_dispatch_policy_may_let_a_lane_wait():
    t = TraceBuilder()
    t.comp("early", duration_ns=7)
    host = t.comp("host", duration_ns=5, is_cpu_op=True)
    t.comp("late", duration_ns=3, deps=[host])
    policy = native.SimulationOptions(dispatch=LateFirst())
    out = native.run(TraceSet([t.build()]), one_device(), policy)
    assert out.start.tolist() == [8_000, 0, 5_000]


def test_a_dispatch_policy_that_waits_for_nothing_is_a_deadlock():
    t = TraceBuilder()
    t.comp("early", duration_ns=7)
    with pytest.raises(DeadlockError, match="early"):
        native.run(
            TraceSet([t.build()]), one_device(), native.SimulationOptions(dispatch=LateFirst())
        )


@pytest.mark.parametrize("chosen", [-1, 1])
def test_a_dispatch_policy_must_choose_from_the_list(chosen):
    class Wrong:
        def pick(self, ready, now_ps):
            return chosen

    t = TraceBuilder()
    t.comp("a", duration_ns=7)
    with pytest.raises(ConfigError, match=f"Wrong.pick chose {chosen} of 1 ready rows"):
        native.run(TraceSet([t.build()]), one_device(), native.SimulationOptions(dispatch=Wrong()))


class AlwaysRing:
    def choose(self, collective, members, size, candidates):
        return "ring"


def test_a_collective_policy_decides():
    out = native.run(
        collective(AR, 10**6, 8),
        machine_of("switch", 8),
        native.SimulationOptions(collectives=AlwaysRing()),
    )
    assert out.instances.algorithm == ["ring"]
    with pytest.raises(ConfigError, match="a policy chose 'ring'"):
        native.run(
            collective(CollectiveType.BARRIER, 0, 8),
            machine_of("switch", 8),
            native.SimulationOptions(collectives=AlwaysRing()),
        )
