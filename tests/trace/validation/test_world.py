"""The world of a check: every rank that is here or that a group names."""

from __future__ import annotations

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder
from chakrakit.trace.validation.communication import CommunicationReader, RanksToCheck


def world(groups: dict[str, list[int]]) -> RanksToCheck:
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, 8, pg_name="g")
    reader = CommunicationReader()
    reader.add(t.build())
    bindings = {0: Binding(0, {"g": "left"}), 1: Binding(0, {"g": "right"})}
    return RanksToCheck([reader.finish()], bindings, Groups(groups))


def test_its_size_counts_ranks_that_only_groups_name() -> None:
    assert world({"left": [0], "right": [1]}).size == 2
    assert world({"left": [0, 6], "right": [1]}).size == 7
    assert RanksToCheck([], {}, Groups()).size == 0


def test_members_are_those_of_the_group_and_all_ranks_where_it_is_everybody() -> None:
    found = world({"left": [0, 3], "right": [1]})
    assert found.members("left") == (0, 3)
    assert list(found.members("") or ()) == [0, 1, 2, 3]
    assert found.members("unheard of") is None


def test_ranks_that_share_a_body_share_what_was_read_of_a_role() -> None:
    found = world({"left": [0], "right": [1]})
    [role] = found.calls(0).roles
    assert found.in_role(0, role).size.tolist() == [8]
    assert found.in_role(0, role) is found.in_role(1, role)
    assert found.body(1).name(0) == "sum"
    assert len(found.in_role(0, None)) == 0
