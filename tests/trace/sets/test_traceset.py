"""Ranks share bodies and differ by a small binding; bodies are read when needed and forgotten in time."""

from __future__ import annotations

import math

import pytest

from chakrakit import Binding, CollectiveType, Groups, Trace, TraceBuilder, TraceSet
from chakrakit.errors import FormatError, TraceError
from chakrakit.trace.communication import groups_in
from chakrakit.trace.communication.groups import parse_groups


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_001, num_ops=2**53 + 1, tensor_size=10)
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], pg_name="tp", duration_ns=2_000)
    t.send("next", 0, 1, 8)
    t.collective("all", CollectiveType.BARRIER, 0)
    return t.build()


FOLDED = TraceSet(
    [program()],
    {
        0: Binding(0),
        1: Binding(0, {"tp": "5"}, {0: 1, 1: 2}, 2.0),
        7: Binding(0, {"no": "x"}, scale=0.5),
    },
    Groups({"tp": [0, 3], "5": [1, 2]}),
)


def test_a_plain_rank_runs_the_body_as_it_stands() -> None:
    assert FOLDED.trace(0) is FOLDED.body(0)
    assert TraceSet([program(), program()]).ranks == (0, 1)


def test_a_bound_rank_has_its_own_groups_peers_and_scale() -> None:
    trace = FOLDED.trace(1)
    assert trace.column("pg_name", "-").tolist() == ["-", "5", "-", "-"]
    assert (trace[2].get("comm_src"), trace[2].get("comm_dst")) == (1, 2)
    assert trace.duration_ns.tolist() == [2002, 2000, 0, 0]
    assert trace.column("num_ops", 0).tolist() == [2**54 + 2 - 2, 0, 0, 0]  # scaled as a double
    assert trace[0].get("tensor_size") == 20
    assert FOLDED.trace(7).duration_ns.tolist() == [500, 2000, 0, 0]
    assert FOLDED.body(1).duration_ns.tolist() == [1001, 2000, 0, 0]


def test_the_world_is_what_traces_and_groups_name() -> None:
    assert (FOLDED.ranks, FOLDED.world_size, FOLDED.missing_ranks) == ((0, 1, 7), 8, (2, 3))
    assert repr(FOLDED) == "TraceSet(3 ranks in 1 body, 2 groups, 2 not recorded)"
    assert [rank for rank, _ in FOLDED] == [0, 1, 7]


def test_some_ranks_are_a_set_and_none_is_an_empty_one() -> None:
    assert FOLDED.select_ranks([7, 0]).ranks == (0, 7)
    assert FOLDED.select_ranks([]).ranks == ()
    assert FOLDED.select_ranks([0]).missing_ranks == (1, 2, 3)
    with pytest.raises(TraceError, match="no rank 3; there are 0, 1, 7"):
        FOLDED.select_ranks([3])


@pytest.mark.parametrize(
    ("bindings", "problem"),
    [
        ({0: Binding(1)}, "runs body 1 of 1"),
        ({0: Binding(-1)}, "runs body -1"),
        ({-1: Binding(0)}, "rank -1"),
    ],
)
def test_bindings_that_do_not_fit_are_refused(bindings: dict, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        TraceSet([program()], bindings)


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf])
def test_a_scale_is_finite_and_not_negative(scale: float) -> None:
    with pytest.raises(TraceError, match="a scale of"):
        Binding(0, scale=scale)


def test_bodies_are_read_once_and_the_one_not_used_for_longest_is_forgotten() -> None:
    log: list[int] = []

    def body(number: int) -> Trace:
        log.append(number)
        return program()

    traces = TraceSet([lambda n=n: body(n) for n in range(3)])
    assert log == []
    size = program().table.nbytes
    traces.cache_bytes = int(2.5 * size)
    for rank in (0, 1, 0, 2, 0, 1):
        traces.trace(rank)
    assert log == [0, 1, 2, 1]
    assert "read" not in traces._repr_html_()
    assert log == [0, 1, 2, 1], "showing a set reads nothing"


def test_groups_are_equal_whatever_their_order() -> None:
    one, other = Groups({"a": [0], "b": [1]}), Groups({"b": [1], "a": [0]})
    assert one == other
    assert hash(one) == hash(other)
    assert one.ranks_of("", range(3)) == range(3)
    assert one.ranks_of("9", [0]) is None


def test_ranks_beyond_any_system_are_refused() -> None:
    """Arrays have an entry for each rank up to the highest."""
    with pytest.raises(TraceError, match="ranks are numbers from 0 to 4,194,303"):
        TraceSet([TraceBuilder().build()], {2**31 - 1: Binding(0)})


@pytest.mark.parametrize(
    "found",
    [[], {"a": 1}, {"a": ["0"]}, {"a": [True]}, {"a": [-1]}, {"a": [1, 1]}, {"a": [10**30]}],
)
def test_groups_that_are_none_are_refused(found: object) -> None:
    with pytest.raises(FormatError, match=r"groups\.json"):
        parse_groups(found, "groups.json")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            """['[{"pg_name": "1", "ranks": [0, 2]}, {"pg_name": "0", "ranks": []}]']""",
            {"1": (0, 2)},
        ),
        ('["nonsense"]', {}),
        ("[[", {}),
        ("5", {}),
        ("['[5]']", {}),
        ("['{\"a\": 1}']", {}),
        ("""['[{"pg_name": "1", "ranks": [1e999]}]']""", {}),
        ("", {}),
        ("(" * 10_000, {}),
    ],
)
def test_groups_recorded_by_pytorch_are_found_and_nonsense_is_no_error(
    values: str, expected: dict
) -> None:
    trace = Trace.from_columns(
        {"name": ["x", "## process_group:init ##"], "type": [4, 1], "inputs_values": [None, values]}
    )
    assert dict(groups_in(trace)) == expected


def test_one_builder_for_many_ranks_is_built_once() -> None:
    t = TraceBuilder()
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, pg_name="node")
    traces = TraceSet.of(t, ranks=4, groups={"node": [[0, 1], [2, 3]], "ends": [0, 3]})
    assert (len(traces), traces.body_count) == (4, 1)
    assert sorted(traces.groups.values()) == [(0, 1), (0, 3), (2, 3)]
    assert traces.collectives.instances.num_rows == 2


def test_a_builder_for_each_rank() -> None:
    first, second = TraceBuilder(), TraceBuilder()
    first.send("x", 0, 1, 8)
    second.recv("x", 0, 1, 8)
    assert TraceSet.of([first, second]).ranks == (0, 1)
    by_rank = TraceSet.of({3: first, 5: second, 6: second})
    assert (by_rank.ranks, by_rank.body_count) == ((3, 5, 6), 2)


def test_a_rank_in_two_groups_of_one_name_is_refused() -> None:
    with pytest.raises(TraceError, match="rank 1 is in two groups 'node'"):
        TraceSet.of(TraceBuilder(), ranks=2, groups={"node": [[0, 1], [1]]})


def pair(
    *calls: tuple[CollectiveType, int], sends: int | None = None, receives: int | None = None
) -> TraceSet:
    """Two ranks that compute and make these calls, and of which one may have an end of a message."""
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        t.comp("work", duration_ns=10)
        for kind, size in calls:
            t.collective("call", kind, size)
        if sends == rank:
            t.send("m", rank, 1 - rank, 8, tag=3)
        if receives == rank:
            t.recv("m", 1 - rank, rank, 8, tag=3)
        bodies.append(t)
    return TraceSet.of(bodies)


REDUCED, GATHERED = (CollectiveType.ALL_REDUCE, 64), (CollectiveType.ALL_GATHER, 64)


def test_ranks_of_two_sets_are_mixed_where_their_calls_meet() -> None:
    mixed = pair(REDUCED).mixed({1: pair(REDUCED)})
    assert (mixed.ranks, mixed.body_count) == ((0, 1), 4)
    other = pair(REDUCED, sends=1, receives=0)
    assert pair(REDUCED, sends=1, receives=0).mixed({0: other}).ranks == (0, 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (pair(REDUCED), pair(GATHERED), "collective 0 .* ranks 0, 1 do not agree"),
        (pair(REDUCED), pair((REDUCED[0], 32)), "do not agree on its type and size"),
        (pair(REDUCED, REDUCED), pair(REDUCED), "collective 1 .*: rank 1 never arrives"),
        (pair(sends=0, receives=1), pair(), "a message from rank 0 to rank 1 has one end"),
        (pair(), pair(), "rank 7 is not in both sets; there are 0, 1"),
    ],
)
def test_ranks_whose_calls_do_not_meet_are_not_mixed(
    ours: TraceSet, theirs: TraceSet, says: str
) -> None:
    with pytest.raises(TraceError, match=says):
        ours.mixed({7 if "7" in says else 1: theirs})
