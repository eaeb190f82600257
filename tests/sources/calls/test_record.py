"""Recorded calls as columns: their order, and the key that equal programs share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chakrakit.sources.calls import RecordedGroup

CALLS = [("nccl:all_reduce", 0, 10, 20), ("nccl:broadcast", 0, 30, 40)]


def test_calls_are_put_in_the_order_they_were_issued(made):
    """A recorder may write them as they end."""
    found = made([CALLS[1], CALLS[0]]).in_issue_order()
    assert [found.names[n] for n in found.name] == ["nccl:all_reduce", "nccl:broadcast"]
    assert (found.created.tolist(), found.sequence.tolist()) == ([10, 30], [1, 0])


def test_calls_in_order_stay_as_they_are(made):
    calls = made(CALLS)
    assert calls.in_issue_order() is calls


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ([("nccl:all_reduce", 0, 11, 25), ("nccl:broadcast", 0, 31, 41)], True),  # times alone
        ([("nccl:all_reduce", 0, 10, 20), ("nccl:all_gather", 0, 30, 40)], False),
        (CALLS[:1], False),
    ],
)
def test_ranks_that_make_the_same_calls_have_the_same_key(made, other, same):
    roles = ["default_pg"]
    assert (made(CALLS).digest(roles) == made(other).digest(roles)) is same
    assert made(CALLS).digest(roles) != made(CALLS).digest(["mesh_tp"])


def test_groups_count_where_messages_name_places_in_them(made):
    """Collectives of two pairs of ranks are the same program, messages are not."""
    others = [RecordedGroup("0", "default_pg", (2, 3))]
    collectives, messages = made(CALLS), made([("nccl:send 0->1", 0, 10, 20)])
    for calls, same in ((collectives, True), (messages, False)):
        elsewhere = replace(calls, groups=others)
        assert (calls.digest(["pp"]) == elsewhere.digest(["pp"])) is same
