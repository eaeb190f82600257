"""The communication of a body in pieces: rows of the whole file, names, and digests that compare."""

from __future__ import annotations

import pytest

from chakrakit import CollectiveType, Trace, TraceBuilder
from chakrakit.trace.validation.communication import BodyCommunication, CommunicationReader

AR, AG = CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER


def program() -> Trace:
    t = TraceBuilder()
    t.comp("first")
    t.collective("sum", AR, 8, pg_name="1")
    t.comp("between")
    t.collective("trade", CollectiveType.ALL_TO_ALL, 4, pg_name="1", in_splits=[1, 3])
    t.send("out", 0, 1, 16, tag=2)
    t.recv("in", 3, 0, 16)
    return t.build()


def read(trace: Trace, cut: int) -> BodyCommunication:
    reader = CommunicationReader()
    for piece in (trace.table.slice(0, cut), trace.table.slice(cut)):
        reader.add(Trace(piece, trace.layouts))
    return reader.finish()


@pytest.mark.parametrize("cut", [0, 2, 4, 6])
def test_rows_and_names_are_those_of_the_whole_file(cut: int) -> None:
    body = read(program(), cut)
    assert body.rows.tolist() == [1, 3, 4, 5]
    assert [body.name(row) for row in (1, 3, 4, 5)] == ["sum", "trade", "out", "in"]
    assert body.split.tolist() == [False, True, False, False]
    assert len(body) == 4


def test_the_own_end_of_a_message_is_what_it_says_of_itself() -> None:
    own = [
        (said, rows.tolist(), ids.tolist(), s) for said, rows, ids, s in read(program(), 3).own_ends
    ]
    assert own == [(0, [4], [4], True), (0, [5], [5], False)]


def test_collectives_of_a_group_compare_by_kind_size_and_splits() -> None:
    body = read(program(), 6)
    group = body.in_role(body.calls, body.calls.roles[0])
    assert (group.row.tolist(), group.kind.tolist(), group.size.tolist()) == (
        [1, 3],
        [AR, CollectiveType.ALL_TO_ALL],
        [8, 4],
    )
    assert not group.numbered
    assert len(body.in_role(body.calls, None)) == 0

    def key(kind: CollectiveType, size: int, **more: object) -> bytes:
        t = TraceBuilder()
        t.collective("c", kind, size, pg_name="x", **more)
        alone = read(t.build(), 1)
        return alone.in_role(alone.calls, alone.calls.roles[0]).key

    assert key(AR, 8) == key(AR, 8)
    distinct = [
        key(AR, 8),
        key(AG, 8),
        key(AR, 9),
        key(AR, 8, in_splits=[1]),
        key(AR, 8, comm_seq=1),
    ]
    assert len(set(distinct)) == 5


def test_a_body_without_communication_has_none() -> None:
    t = TraceBuilder()
    t.comp("alone")
    assert len(read(t.build(), 1)) == 0
