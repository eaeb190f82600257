"""A plain graph: each node starts when all it depends on has ended, with gaps for what is not known."""

from __future__ import annotations

import numpy as np

from chakrakit.passes.plain_graph import GAP, PlainGraph, TimedRows, plain_graph
from chakrakit.trace.model import EdgeForm, Edges


def device_rows(*times: tuple[int, int], lanes: list[int], edges: Edges) -> TimedRows:
    start, end = (np.array(c) for c in zip(*times, strict=True))
    whole = np.ones(len(start), np.bool_)
    return TimedRows(start, end, end - start, ~whole, np.array(lanes), whole, edges)


def nodes(graph: PlainGraph) -> list[tuple[int, int, int]]:
    return list(zip(graph.row.tolist(), graph.start.tolist(), graph.end.tolist(), strict=True))


def edges(graph: PlainGraph) -> list[tuple[int, int]]:
    return list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


def test_waiting_for_nothing_known_is_a_gap_from_begin_to_finish() -> None:
    given = device_rows((2, 5), (8, 10), lanes=[0, 1], edges=Edges.of([0], [1]))
    graph = plain_graph(given, 0, 12)
    assert nodes(graph) == [(GAP, 0, 2), (0, 2, 5), (GAP, 5, 8), (1, 8, 10), (GAP, 10, 12)]
    assert edges(graph) == [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)]
    assert graph.dropped == 0


def test_rows_of_one_lane_follow_each_other() -> None:
    graph = plain_graph(device_rows((0, 5), (5, 9), lanes=[3, 3], edges=Edges.empty()), 0, 9)
    assert nodes(graph) == [(0, 0, 5), (1, 5, 9)]
    assert edges(graph) == [(0, 1)]


def test_a_dependency_that_the_times_contradict_is_counted() -> None:
    given = device_rows((0, 10), (5, 8), lanes=[0, 1], edges=Edges.of([0], [1]))
    assert plain_graph(given, 0, 10).dropped == 1


def test_a_start_that_another_start_holds_back_waits_for_what_came_before_that() -> None:
    """Row 2 may start when row 1 starts: in plain terms, when what row 1 waited for has ended."""
    starts = Edges.of([1], [2], form=EdgeForm.START_START)
    given = device_rows((0, 4), (4, 9), (4, 6), lanes=[0, 0, 1], edges=starts)
    graph = plain_graph(given, 0, 9)
    assert sorted(nodes(graph)) == [(0, 0, 4), (1, 4, 9), (2, 4, 6)]
    after = {(int(graph.row[a]), int(graph.row[b])) for a, b in edges(graph)}
    assert after == {(0, 1), (0, 2)}
