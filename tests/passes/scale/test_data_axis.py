"""The axis of replicas is found from groups and messages, or refused with what stands against it."""

from __future__ import annotations

import pytest

from chakrakit import CollectiveType, TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.passes.scale import ScaleRanks
from chakrakit.passes.scale.axes import Axis, DataAxis, GroupPosition, peers_in, roots_in
from support.replicas import A2A, AR, DP, TP, set_of


def test_ranks_of_a_gradients_group_are_the_replicas() -> None:
    found = DataAxis(
        set_of({**DP, **TP}, (AR, "cd", 1000, "forward"), (AR, "ab", 1000, "backward"))
    )
    assert found.axis == Axis(4, 2, 2)
    assert found.lies == {
        "a": GroupPosition.ACROSS,
        "b": GroupPosition.ACROSS,
        "c": GroupPosition.WITHIN,
        "d": GroupPosition.WITHIN,
    }
    assert found.members("").tolist() == [0, 1, 2, 3]


def test_groups_of_one_rank_each_are_one_replica() -> None:
    alone = {"a": [0], "b": [1]}
    found = DataAxis(set_of(alone, (AR, "ab", 1000, "backward"), ranks=2))
    assert found.axis.size == 1
    assert set(found.lies.values()) == {GroupPosition.ACROSS}


def test_a_body_names_its_peers_in_order_and_its_roots_by_group() -> None:
    t = TraceBuilder()
    t.send("s", 4, 2, 8)
    t.recv("r", 2, 4, 8)
    t.send("s", 4, 1, 8)
    for group in ("x", "y"):
        t.collective("b", CollectiveType.BROADCAST, 9, pg_name=group, comm_src=3)
    t.collective("plain", AR, 9)
    trace = t.build()
    assert peers_in(trace) == [4, 2, 1]
    assert roots_in(trace) == {3: {"x", "y"}}


@pytest.mark.parametrize(
    ("traces", "said"),
    [
        (set_of(DP, (AR, "ab", 1000, "")), "the role of group 'a' (ALL_REDUCE) is unclear"),
        (set_of(DP, (AR, "ab", 1000, "forward")), "over=[a]"),
        (set_of(DP, (A2A, "ab", 1000, "backward")), "group 'a' (ALL_TO_ALL) is unclear"),
        (
            set_of(
                {**DP, "w": [0, 1, 2, 3]}, (AR, "ab", 1000, "backward"), (A2A, "w", 9, "backward")
            ),
            "group 'w' (ALL_TO_ALL) spans all replicas, and its role is unclear",
        ),
        (
            set_of({**DP, **TP}, (AR, "ab", 1000, "backward"), (AR, "cd", 1000, "backward")),
            "the replicas may be those of",
        ),
        (
            set_of(DP, (AR, "ab", 1000, "backward"), peers=[2, 3, 0, 1]),
            "messages with rank 2 of another",
        ),
    ],
)
def test_where_it_is_unclear_it_is_refused_and_the_group_named(traces, said):
    with pytest.raises(TraceError) as error:
        _ = traces | ScaleRanks(8)
    assert said in str(error.value)


def test_what_is_unclear_can_be_said():
    traces = set_of(DP, (AR, "ab", 1000, ""))
    for over in (("a", "b"), ("a",)):  # b does the same
        assert (traces | ScaleRanks(6, over=over)).groups["b"] == (1, 3, 5)
    with pytest.raises(TraceError, match="no program uses a group 'x'"):
        _ = traces | ScaleRanks(6, over=("x",))
