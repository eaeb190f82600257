"""Calls of all bodies that meet, side by side; those that do not match are refused."""

from __future__ import annotations

import pytest

import chakrakit
from chakrakit import CollectiveType
from chakrakit.errors import TraceError
from chakrakit.passes.comm import Comm
from chakrakit.passes.comm.channels import MESSAGE, channels_of

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def test_ranks_that_do_not_issue_the_same_are_refused():
    def one(kind):
        t = chakrakit.TraceBuilder()
        t.collective("c", kind, 1000)
        return t.build()

    traces = chakrakit.TraceSet([one(CollectiveType.ALL_REDUCE), one(CollectiveType.ALL_GATHER)])
    with pytest.raises(TraceError, match="do not issue the same"):
        traces | Comm("split", parts=2)


def test_a_folded_set_has_one_channel_for_all_groups_of_a_role():
    t = chakrakit.TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 1000, pg_name="dp", comm_seq=4)
    bindings = {r: chakrakit.Binding(0, {"dp": "xy"[r // 2]}) for r in range(4)}
    groups = chakrakit.Groups({"x": [0, 1], "y": [2, 3]})
    [channel] = channels_of(chakrakit.TraceSet([t.build()], bindings, groups))
    assert channel.names == {"x", "y", "dp"}
    assert (channel.ranks, len(channel.sides), len(channel)) == (2, 1, 1)
    assert (channel.sizes.tolist(), channel.seqs.tolist()) == ([1000], [4])


def test_messages_of_one_tag_are_a_channel_with_the_larger_size():
    send, receive = chakrakit.TraceBuilder(), chakrakit.TraceBuilder()
    for tag, size in ((1, 8), (2, 16), (1, 24)):
        send.send("s", 0, 1, size, tag=tag)
        receive.recv("r", 0, 1, size + 1, tag=tag)
    first, second = channels_of(chakrakit.TraceSet([send.build(), receive.build()]))
    assert first.name == "messages from rank 0 to rank 1 with tag 1"
    assert (first.sizes.tolist(), first.types.tolist()) == ([9, 25], [MESSAGE, MESSAGE])
    assert [(s.body, s.rows.tolist(), s.is_send) for s in first.sides] == [
        (0, [0, 2], True),
        (1, [0, 2], False),
    ]
    assert second.sizes.tolist() == [17]


def test_a_message_that_nobody_receives_cannot_be_changed():
    t = chakrakit.TraceBuilder()
    t.send("s", 0, 1, 8)
    idle = chakrakit.TraceBuilder()
    idle.recv("r", 0, 1, 8, tag=5)
    with pytest.raises(TraceError, match="with tag 0: sends and receives do not match"):
        channels_of(chakrakit.TraceSet([t.build(), idle.build()]))


def test_names_that_are_one_group_to_some_ranks_alone_are_refused():
    t = chakrakit.TraceBuilder()
    for name in ("a", "b"):
        t.collective("c", CollectiveType.ALL_REDUCE, 8, pg_name=name)
    bindings = {
        0: chakrakit.Binding(0, {"a": "1", "b": "1"}),
        1: chakrakit.Binding(0, {"a": "1", "b": "2"}),
    }
    groups = chakrakit.Groups({"1": [0, 1], "2": [1]})
    with pytest.raises(TraceError, match="'a', 'b' are one group on some of the ranks"):
        channels_of(chakrakit.TraceSet([t.build()], bindings, groups))
