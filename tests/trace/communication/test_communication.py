"""Calls of all ranks are resolved and matched once: by group and number, by ends, tag and turn."""

from __future__ import annotations

import numpy as np

from chakrakit import CollectiveType, Groups, NodeType, Trace, TraceBuilder, TraceSet
from chakrakit.trace.communication import Binding, match, read_calls


def test_calls_are_in_the_order_of_issue_and_know_their_number() -> None:
    t = TraceBuilder()
    t.collective("late", CollectiveType.ALL_REDUCE, 8, start_ns=9, pg_name="a")
    t.send("s", 0, 1, 16, 7, start_ns=2)
    t.collective("early", CollectiveType.ALL_GATHER, 8, start_ns=1, pg_name="a")
    t.collective("told", CollectiveType.ALL_REDUCE, 8, start_ns=3, pg_name="b", comm_seq=5)
    calls = read_calls(t.build())
    assert calls.row.tolist() == [2, 1, 3, 0]
    assert calls.number.tolist() == [0, 0, 5, 1]
    assert calls.recorded.tolist() == [False, False, True, False]
    assert [calls.names[r] for r in calls.roles] == ["a", "b"]
    assert [(c.is_send, c.peer, c.tag) for c in calls.channels] == [(True, 1, 7)]


def pair_program(peer: int) -> Trace:
    """Reduces in `pair`, sends to the peer and receives from it."""
    t = TraceBuilder()
    t.collective("r", CollectiveType.ALL_REDUCE, 8, pg_name="pair", start_ns=0)
    t.send("s", 0, peer, 16, 0, start_ns=1)
    t.recv("v", peer, 0, 16, 0, start_ns=2)
    return t.build()


def four_ranks() -> TraceSet:
    """Ranks 0 and 1, 2 and 3 meet in pairs; all run one body."""
    groups = Groups({"x": [0, 1], "y": [2, 3]})
    bindings = {r: Binding(0, {"pair": "xy"[r // 2]}, {9: r ^ 1, 0: r}, 1.0) for r in range(4)}
    return TraceSet([pair_program(9)], bindings, groups)


def test_every_rank_finds_its_partner_and_its_collective() -> None:
    found = match(four_ranks().communication)
    assert found.instance.tolist() == [0, -1, -1, 0, -1, -1, 1, -1, -1, 1, -1, -1]
    assert found.partner.tolist() == [-1, 5, 4, -1, 2, 1, -1, 11, 10, -1, 8, 7]


def test_one_rank_of_each_class_stands_for_all() -> None:
    communication = four_ranks().communication
    classes = communication.classes([0] * 4, [2, 2])
    assert classes.count == 1
    found = match(communication, classes)
    assert found.partner.tolist() == [-1, 2, 1]
    assert found.weight.tolist() == [2, 1, 1]  # both members of a pair are this one call
    assert found.copies.tolist() == [2, 4, 4]  # two pairs; four ranks that send


def test_names_that_are_one_group_to_a_rank_are_numbered_together() -> None:
    t = TraceBuilder()
    for start, name in enumerate(("a", "b", "a")):
        t.collective(name, CollectiveType.ALL_REDUCE, 8, pg_name=name, start_ns=start)
    groups = Groups({"1": [0], "2": [0]})
    bindings = {0: Binding(0, {"a": "1", "b": "1"}), 1: Binding(0, {"a": "1", "b": "2"})}
    communication = TraceSet([t.build()], bindings, groups).communication
    assert len(communication.programs) == 2
    assert communication.calls(0).number.tolist() == [0, 1, 2]
    assert communication.calls(1).number.tolist() == [0, 0, 1]


def test_peers_that_are_one_rank_share_their_turns() -> None:
    t = TraceBuilder()
    for start, peer in enumerate((7, 8)):
        t.send("s", 0, peer, 16, 0, start_ns=start)
    r = TraceBuilder()
    for start in range(2):
        r.recv("r", 0, 1, 16, 0, start_ns=start)
    bindings = {0: Binding(0, {}, {7: 1, 8: 1}), 1: Binding(1)}
    found = match(TraceSet([t.build(), r.build()], bindings).communication)
    assert found.partner.tolist() == [2, 3, 0, 1]
    assert found.column("number").tolist() == [0, 1, 0, 1]


def test_a_message_to_a_rank_that_was_not_recorded_has_no_partner() -> None:
    found = match(TraceSet([pair_program(5)], groups=Groups({"pair": [0]})).communication)
    assert np.array_equal(found.partner, [-1, -1, -1])


def test_folded_matching_agrees_with_that_of_every_rank() -> None:
    communication = four_ranks().communication
    whole = match(communication)
    folded = match(communication, communication.classes([0, 1, 0, 1], [2, 2]))
    rank = np.repeat(np.arange(4), 3)
    for first in folded.classes.first.tolist():
        mine = np.flatnonzero(rank == first)
        entry = int(folded.offset[folded.classes.rank[first]])
        for k, call in enumerate(mine.tolist()):
            other = int(whole.partner[call])
            if other >= 0:
                c = int(folded.classes.rank[rank[other]])
                assert folded.partner[entry + k] == folded.offset[c] + other % 3


def test_an_end_that_is_not_said_is_the_rank_of_a_message_and_nobody_of_a_collective() -> None:
    t = TraceBuilder()
    t.collective("b", CollectiveType.BROADCAST, 8, start_ns=0)
    t.node("s", NodeType.COMM_SEND_NODE, comm_dst=0, comm_size=8, start_ns=1)
    found = TraceSet([t.build()], {3: Binding(0, {}, {0: 5, -1: 4})}).communication.ends(0)
    assert [end.tolist() for end in found] == [[-1, 3], [-1, 5]]
