"""When a simulation stops early: who waits for what, by rank, group and node."""

import pytest

from chakrakit import Binding, CollectiveType, EdgeKind, Groups, TraceBuilder, TraceSet
from chakrakit.errors import DeadlockError
from chakrakit.simulator.engine import Disturbance, Fault, native
from support.simulated import machine_of, one_device, two

AR = CollectiveType.ALL_REDUCE


def crossed(t, rank):
    first, second = ("", "g") if rank == 0 else ("g", "")
    t.collective("one", AR, 10, pg_name=first, stream=0)
    t.collective("two", AR, 10, pg_name=second, stream=0)


def test_a_deadlock_names_ranks_groups_and_nodes():
    with pytest.raises(
        DeadlockError,
        match=r"rank 0 at node 0 \('one'\) waits in all-reduce 0 of group .* for rank 1",
    ):
        native.run(two(crossed), machine_of("ring", 2))


def test_what_fails_for_good_is_an_error_that_says_so():
    for fault in (Fault("link", (0, 1), 0, 0.0), Fault("device", 2, 0, 0.0)):
        t = TraceBuilder()
        work = t.comp("w", duration_ns=100)
        t.collective("c", AR, 10**6, deps=[work])
        traces = TraceSet([t.build()], {i: Binding(0) for i in range(4)}, Groups({"": range(4)}))
        with pytest.raises(DeadlockError, match=r"failed|waits"):
            native.run(
                traces,
                machine_of("ring", 4),
                native.SimulationOptions(disturbance=Disturbance(faults=(fault,))),
            )


def test_rows_that_wait_for_each_other_are_said_to_form_a_circle():
    """On its stream the first row comes first, and it depends on the second."""
    t = TraceBuilder()
    first, second = t.comp("first", stream=0), t.comp("second", stream=0)
    t.edge(second, first, EdgeKind.DATA)
    with pytest.raises(DeadlockError, match=r"rank 0 at node \d .* waits for what waits for it"):
        native.run(TraceSet([t.build()]), one_device())


def test_four_waits_are_told_and_the_rest_counted():
    """Six pairs of ranks, each of which crosses two collectives; both of each pair wait."""
    pairs = Groups({f"{kind}{i}": (2 * i, 2 * i + 1) for kind in "ab" for i in range(6)})
    bodies = []
    for rank in range(12):
        t = TraceBuilder()
        for kind in ("ab", "ba")[rank % 2]:
            t.collective(kind, AR, 10, pg_name=f"{kind}{rank // 2}", stream=0)
        bodies.append(t.build())
    with pytest.raises(DeadlockError, match=r"on 12 of 12 ranks: .*; and 8 more$"):
        native.run(TraceSet(bodies, None, pairs), machine_of("switch", 12))
