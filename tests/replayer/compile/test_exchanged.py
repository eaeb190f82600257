"""Communication said in bytes: what a rank puts in and gets, in its group here."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.replayer.compile import Place, exchanged_of
from chakrakit.replayer.plan import World
from chakrakit.replayer.recording import Recording

KINDS = ck.CollectiveType


def exchanged(build, ranks=2, shrink="keep", recorded=4):
    """What rank 0 of so many exchanges, where four were recorded."""
    t = ck.TraceBuilder()
    build(t)
    world = World(tuple(range(recorded)), ranks, ck.Groups({"0": range(recorded)}))
    place = Place(Recording(0, t.build()), world, 0, world.all_groups(), shrink)
    return exchanged_of(place, 0)


@pytest.mark.parametrize(
    ("kind", "size", "shrink", "into", "out"),
    [
        (KINDS.ALL_REDUCE, 400, "keep", 400, 400),
        (KINDS.ALL_GATHER, 100, "keep", 100, 200),
        (KINDS.ALL_GATHER, 100, "scale", 200, 400),
        (KINDS.REDUCE_SCATTER, 400, "keep", 200, 100),
        (KINDS.REDUCE_SCATTER, 400, "scale", 400, 200),
        (KINDS.ALL_TO_ALL, 400, "keep", 200, 200),
        (KINDS.ALL_TO_ALL, 400, "scale", 400, 400),
    ],
)
def test_two_of_four_keep_their_parts_or_the_whole(kind, size, shrink, into, out):
    found = exchanged(lambda t: t.collective("c", kind, size), shrink=shrink)
    assert (found.group, found.input, found.output) == (0, into, out)


def test_uneven_shares_are_as_recorded():
    """Of 800 bytes in eight parts, this rank sends 1 to itself and 2 to the other that is here."""
    given = {"in_splits": [1, 2, 3, 2], "out_splits": [4, 1, 1, 2], "out_size": 1600}
    found = exchanged(lambda t: t.collective("c", KINDS.ALL_TO_ALL, 800, **given))
    assert (found.in_splits, found.out_splits) == ([100, 200], [800, 200])
    assert (found.input, found.output) == (300, 1000)


def test_messages_have_one_end_and_those_to_nobody_are_left_out():
    sent = exchanged(lambda t: t.send("s", 0, 1, 64, tag=7))
    assert (sent.op, sent.root, sent.tag, sent.input, sent.output) == ("send", 1, 7, 64, 0)
    got = exchanged(lambda t: t.recv("r", 1, 0, 64))
    assert (got.op, got.input, got.output) == ("recv", 0, 64)
    assert exchanged(lambda t: t.send("s", 0, 3, 64)).group == -1


def test_a_kind_that_nobody_knows_is_not_done():
    found = exchanged(lambda t: t.node("c", ck.NodeType.COMM_COLL_NODE, comm_type=42, comm_size=8))
    assert (found.op, found.group) == ("unknown", -1)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda t: t.collective("c", KINDS.ALL_REDUCE, -5), "a comm_size of -5"),
        (
            lambda t: t.node("s", ck.NodeType.COMM_SEND_NODE, comm_size=8),
            "does not say its other end",
        ),
    ],
)
def test_what_cannot_be_is_refused(build, said):
    with pytest.raises(TraceError, match=said):
        exchanged(build)
