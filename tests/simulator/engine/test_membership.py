"""Who communicates with whom: groups resolved, and members that nobody recorded."""

import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.simulator.engine import native
from chakrakit.simulator.engine.membership import Membership
from chakrakit.simulator.engine.program import read_program
from chakrakit.simulator.results import simulate
from support.simulated import collective, machine_of

AR = CollectiveType.ALL_REDUCE


def test_missing_ranks_stand_in_only_when_asked():
    traces = collective(AR, 10**6, 4).select_ranks([0, 2])
    with pytest.raises(TraceError, match="rank 1 of group '' was not recorded"):
        native.run(traces, machine_of("ring", 4))
    done = simulate(
        traces, machine_of("ring", 4), options=native.SimulationOptions(assume_missing=True)
    )
    whole = simulate(collective(AR, 10**6, 4), machine_of("ring", 4))
    assert done.makespan_ns == whole.makespan_ns
    assert done.summary.ghosts == [1, 3]


def membership(traces, **options):
    programs = [read_program(traces.body_at(b)) for b in range(traces.body_count)]
    return Membership(traces, programs, **options)


def test_groups_are_resolved_in_their_own_order():
    """Rank 2 was not recorded; the body knows the group under its only role."""
    t = TraceBuilder()
    t.collective("c", AR, 8, pg_name="g")
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"g": (2, 1, 0)}))
    (group,) = membership(traces, assume_missing=True).groups
    assert group.name == "g"
    assert group.members.tolist() == [2, 1, 0]
    assert group.present.tolist() == [-1, 1, 0]
    assert group.role.tolist() == [-1, 0, 0]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"h": (0, 1)}, "rank 0 uses group 'g', which does not exist; there are 'h'"),
        ({"g": (0, 0, 1)}, "group 'g' lists rank 0 twice"),
        ({"g": (1,)}, "rank 0 uses group 'g' but is not in it"),
        ({"g": (0, 1, 2)}, "rank 2 of group 'g' was not recorded; --assume-missing symmetric"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, said):
    t = TraceBuilder()
    t.collective("c", AR, 8, pg_name="g")
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups(groups))
    with pytest.raises(TraceError, match=said):
        membership(traces)
