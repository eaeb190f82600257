"""Calls that meet: by place or number within a group, and by channel between two ranks."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit import CollectiveType, Groups, Trace, TraceBuilder, TraceSet
from chakrakit.trace.communication import Binding, match
from support.faulty_sets import AG, collectives
from support.faulty_traces import AR


def test_two_names_for_all_ranks_are_one_sequence_in_the_table_too():
    ts = ck.TraceSet(
        [collectives((AR, 8, ""), (AG, 4, "0")), collectives((AR, 8, "0"), (AG, 4, ""))]
    )
    assert ts.collectives.instances["ranks"].to_pylist() == [2, 2]


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


def test_a_message_that_nobody_receives_has_no_partner() -> None:
    t = TraceBuilder()
    t.send("s", 0, 1, 16, tag=1)
    r = TraceBuilder()
    r.recv("r", 0, 1, 16, tag=2)
    found = match(TraceSet([t.build(), r.build()]).communication)
    assert found.partner.tolist() == [-1, -1]
    assert found.group.tolist() == [-1, -1]


def test_recorded_numbers_meet_whatever_their_place() -> None:
    ranks = []
    for numbers in ((4, 5), (5, 6)):
        t = TraceBuilder()
        for number in numbers:
            t.collective("c", AR, 8, comm_seq=number)
        ranks.append(t.build())
    assert match(TraceSet(ranks).communication).instance.tolist() == [0, 1, 1, 2]


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
