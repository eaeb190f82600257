"""Groups after scaling: all of the new replicas across them, one in each within them."""

from __future__ import annotations

import pytest

from chakrakit import Groups
from chakrakit.errors import TraceError
from chakrakit.passes.scale import ScaleRanks
from chakrakit.passes.scale.axes import Axis, GroupPosition
from chakrakit.passes.scale.scaled_groups import ScaledGroups
from support.comparing import differences
from support.replicas import AR, DP, TP, set_of

AXIS = Axis(4, 2, 2)
ACROSS, WITHIN, ASKEW = GroupPosition.ACROSS, GroupPosition.WITHIN, GroupPosition.ASKEW


def test_a_rank_calls_a_group_by_the_name_it_has_in_its_replica() -> None:
    lies = {"a": ACROSS, "b": ACROSS, "c": WITHIN, "d": WITHIN}
    found = ScaledGroups(Groups({**DP, **TP}), AXIS, 3, lies, {})
    assert [found.name("c", replica) for replica in range(3)] == ["c", "d", "c.2"]
    assert [found.name("d", replica) for replica in range(3)] == ["c", "d", "c.2"]
    assert {found.name("a", replica) for replica in range(3)} == {"a"}


def test_fewer_replicas_have_fewer_groups() -> None:
    lies = {"a": ACROSS, "c": WITHIN, "d": WITHIN}
    found = ScaledGroups(Groups({"a": [0, 2], **TP}), AXIS, 1, lies, {})
    assert dict(found.groups) == {"a": (0,), "c": (0, 1)}


def test_groups_numbered_by_role_are_numbered_so_again() -> None:
    groups = Groups({"1": [0, 2], "2": [1, 3], "3": [0, 1], "4": [2, 3]})
    lies = {"1": ACROSS, "2": ACROSS, "3": WITHIN, "4": WITHIN}
    roles = {"1": "dp", "2": "dp", "3": "tp", "4": "tp"}
    found = ScaledGroups(groups, AXIS, 3, lies, roles)
    assert dict(found.groups) == {
        "1": (0, 2, 4),
        "2": (1, 3, 5),
        "3": (0, 1),
        "4": (2, 3),
        "5": (4, 5),
    }


def test_a_group_askew_to_the_axis_is_left_out_and_told() -> None:
    found = ScaledGroups(Groups({"x": [0, 3], "a": [0, 2]}), AXIS, 2, {"x": ASKEW, "a": ACROSS}, {})
    assert found.dropped == ["x"]
    assert dict(found.groups) == {"a": (0, 2)}


def test_an_order_of_ranks_that_nobody_can_continue_is_refused() -> None:
    with pytest.raises(TraceError, match="group 'w' lists its ranks in an order that cannot be"):
        ScaledGroups(Groups({"w": [0, 3, 1, 2]}), AXIS, 3, {"w": ACROSS}, {})


def test_groups_that_sum_in_the_forward_pass_are_parts_of_a_model():
    traces = set_of({**DP, **TP}, (AR, "cd", 1000, "forward"), (AR, "ab", 1000, "backward"))
    assert dict((traces | ScaleRanks(6)).groups) == {
        "a": (0, 2, 4),
        "b": (1, 3, 5),
        "c": (0, 1),
        "d": (2, 3),
        "c.2": (4, 5),
    }


def test_groups_that_programs_call_by_their_numbers_keep_them():
    groups = {"1": [0, 2], "2": [1, 3], "3": [0, 1], "4": [2, 3]}
    traces = set_of(groups, (AR, "12", 1000, "backward"), (AR, "34", 1000, "forward"))
    large = traces | ScaleRanks(8)
    assert list(large.groups) == ["1", "2", "3", "4", "3.2", "3.3"]
    assert differences(large | ScaleRanks(4), traces) == []
