"""Communication of nodes that say it in bytes, in the group as it is in the replay."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.replayer.compile import Exchanged, PlanPlace, exchanged_of
from chakrakit.replayer.ranks import ReplayWorld
from chakrakit.replayer.recording import RecordedRows

C = ck.CollectiveType


def found(t: ck.TraceBuilder, nproc: int = 4, shrink: str = "scale") -> Exchanged:
    """What rank 0 of four does in its first row, replayed by so many."""
    world = ReplayWorld((0, 1, 2, 3), nproc, ck.Groups({"g": [0, 1, 2, 3]}))
    return exchanged_of(
        PlanPlace(RecordedRows(0, t.build()), world, 0, world.all_groups(), shrink), 0
    )


def collective(kind: C, size: int, **more: object) -> ck.TraceBuilder:
    t = ck.TraceBuilder()
    t.collective("c", kind, size, pg_name="g", **more)
    return t


@pytest.mark.parametrize(
    ("kind", "nproc", "shrink", "sizes"),
    [
        (C.ALL_REDUCE, 4, "scale", (800, 800)),
        (C.ALL_GATHER, 4, "scale", (800, 3200)),
        (C.ALL_GATHER, 2, "scale", (1600, 3200)),  # the whole stays
        (C.ALL_GATHER, 2, "keep", (800, 1600)),  # the part stays
        (C.REDUCE_SCATTER, 4, "scale", (800, 200)),
        (C.REDUCE_SCATTER, 2, "scale", (800, 400)),
        (C.REDUCE_SCATTER, 2, "keep", (400, 200)),
    ],
)
def test_bytes_in_and_out_follow_the_size_of_the_group(kind, nproc, shrink, sizes) -> None:
    one = found(collective(kind, 800), nproc, shrink)
    assert (one.input, one.output) == sizes


def test_an_all_to_all_is_shared_as_recorded_or_evenly() -> None:
    even = found(collective(C.ALL_TO_ALL, 800))
    assert (even.in_splits, even.out_splits) == ([200] * 4, [200] * 4)
    told = found(collective(C.ALL_TO_ALL, 800, in_splits=[1, 2, 3, 2], out_size=400))
    assert (told.in_splits, told.input) == ([100, 200, 300, 200], 800)
    assert told.out_splits == [100] * 4
    fewer = found(collective(C.ALL_TO_ALL, 800, in_splits=[1, 2, 3, 2]), nproc=2)
    assert fewer.in_splits == [100, 200]


def test_a_message_has_its_other_end_and_its_bytes_on_one_side() -> None:
    t = ck.TraceBuilder()
    t.send("s", 0, 2, 64, tag=9)
    sent = found(t)
    assert (sent.op, sent.root, sent.tag, sent.input, sent.output) == ("send", 2, 9, 64, 0)
    r = ck.TraceBuilder()
    r.recv("r", 3, 0, 64)
    assert (found(r).op, found(r).root, found(r).output) == ("recv", 3, 64)


def test_a_message_to_a_rank_that_is_not_here_is_not_done() -> None:
    t = ck.TraceBuilder()
    t.send("s", 0, 3, 64)
    assert found(t, nproc=2).group == -1
    assert found(collective(C.GATHER, 8)).op == "unknown"


def test_what_does_not_say_enough_is_refused_with_its_node() -> None:
    t = ck.TraceBuilder()
    t.node("s", ck.NodeType.COMM_SEND_NODE, comm_size=8)
    with pytest.raises(TraceError, match=r"rank 0, node 0 \('s'\) does not say its other end"):
        found(t)
    with pytest.raises(TraceError, match="a comm_size of -8"):
        found(collective(C.ALL_REDUCE, -8))
