"""Collectives of one group follow each other; where they overlap, the rest of the first is a gap."""

from __future__ import annotations

import numpy as np

from chakrakit import CollectiveType, Trace, TraceBuilder
from chakrakit.passes.plain_graph import GAP, PlainGraph
from chakrakit.passes.portable import in_group_order


def calls(first: str, second: str) -> Trace:
    """Two collectives and what reads the first one."""
    t = TraceBuilder()
    for name in (first, second):
        t.collective("c", CollectiveType.ALL_REDUCE, 4, pg_name=name)
    t.comp("reader")
    return t.build()


def graph(second: int) -> PlainGraph:
    """The first from 0 to 10, the second from `second` to 14, and then its reader."""
    i64 = np.int64
    return PlainGraph(
        np.array([0, 1, 2], i64),
        np.array([0, second, 14], i64),
        np.array([10, 14, 15], i64),
        np.array([0], i64),
        np.array([2], i64),
        3,
    )


def test_one_that_overlaps_the_next_ends_where_that_starts_and_its_reader_waits_for_the_rest() -> (
    None
):
    found = in_group_order(graph(6), calls("a", "a"))
    assert found.row.tolist() == [0, 1, GAP, 2]
    assert (found.start.tolist(), found.end.tolist()) == ([0, 6, 6, 14], [6, 14, 10, 15])
    assert (found.src.tolist(), found.dst.tolist()) == ([0, 0, 2], [1, 2, 3])
    assert found.dropped == 3


def test_those_that_do_not_overlap_only_get_an_edge() -> None:
    found = in_group_order(graph(10), calls("a", "a"))
    assert found.row.tolist() == [0, 1, 2]
    assert (found.src.tolist(), found.dst.tolist()) == ([0, 0], [1, 2])


def test_groups_do_not_wait_for_each_other() -> None:
    found = in_group_order(graph(6), calls("a", "b"))
    assert found.end.tolist() == [10, 14, 15]
    assert (found.src.tolist(), found.dst.tolist()) == ([0], [2])
