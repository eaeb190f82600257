"""The groups of all linked ranks: merged, inferred where files name none, and numbered."""

from __future__ import annotations

from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.linking.linker import merged_groups, numbered_groups, resolve_groups
from chakrakit.trace.model import CollectiveType as C


def call(group=None):
    return RecordedCollective(0, 0, C.ALL_REDUCE, "x", in_bytes=8, group=group)


def test_groups_that_any_rank_knows(linked_rank):
    ranks = {0: linked_rank(groups={"0": (0, 1), "a": (0,)}), 1: linked_rank(groups={"b": (1,)})}
    assert merged_groups(ranks) == {"0": (0, 1), "a": (0,), "b": (1,)}


def test_where_no_file_describes_groups_those_who_use_one_are_in_it(linked_rank):
    ranks = {
        0: linked_rank([call("tp")]),
        1: linked_rank([call("tp"), call("dp")]),
        2: linked_rank(),
    }
    assert merged_groups(ranks) == {"tp": (0, 1), "dp": (1,)}


def test_where_no_call_names_one_all_ranks_are_in_one(linked_rank):
    assert merged_groups({0: linked_rank([call()]), 2: linked_rank([call()])}) == {"0": (0, 2)}
    assert merged_groups({0: linked_rank([call()])}) == {}


def test_groups_are_numbered_from_one_and_calls_follow(linked_rank):
    """PyTorch's default group is 0, which simulators refuse."""
    calls = [call("0"), call("1"), call("elsewhere"), call()]
    groups = numbered_groups({0: linked_rank(calls)}, {"0": (0, 1), "1": (0,)})
    assert groups == {"2": (0, 1), "1": (0,)}
    assert [c.group for c in calls] == ["2", "1", "elsewhere", None]


def test_the_collector_s_card_names_the_group_of_ddp(linked_rank):
    calls = [call(), call(), call("0")]
    linked = linked_rank(calls, card={"ddp_groups": ["7"]})
    assert resolve_groups({0: linked}, {"0": (0, 1), "7": (0, 1)}) == {0: 2}
    assert [(c.group, c.sequence) for c in calls] == [("7", 0), ("7", 1), ("0", 0)]
