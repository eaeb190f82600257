"""Circles of dependencies: shown once, and which control edges to blame."""

import numpy as np

from chakrakit.trace.model import Graph
from chakrakit.trace.validation.graph import components, find_circles


def found(n, *edges):
    """Edges as (source, target, form, whether control)."""
    src, dst, form, ctrl = (np.array(c) for c in zip(*edges, strict=True))
    return find_circles(
        n, src.astype(np.int32), dst.astype(np.int32), form.astype(np.uint8), ctrl.astype(bool)
    )


def test_a_graph_without_circles_has_none():
    assert found(3, (0, 1, 0, False), (1, 2, 0, True)) is None


def test_a_control_edge_against_the_data_is_to_blame():
    circles = found(3, (0, 1, 0, False), (1, 2, 0, False), (2, 0, 0, True))
    assert sorted(circles.path) == [0, 1, 2]
    assert circles.closing.tolist() == [2]


def test_data_that_goes_round_is_nobody_elses_fault():
    circles = found(2, (0, 1, 0, False), (1, 0, 0, False))
    assert sorted(circles.path) == [0, 1]
    assert circles.closing is None


def test_a_caller_may_hold_its_callee_and_be_held_by_it():
    """Start to start (1) down, finish to finish (2) up: no circle. Finish to start (0) up: one."""
    assert found(2, (0, 1, 1, True), (1, 0, 2, True)) is None
    assert found(2, (0, 1, 0, True), (1, 0, 2, True)) is not None


def test_rows_that_reach_each_other_share_a_number():
    graph = Graph(5, [0, 1, 1, 2, 3], [1, 0, 2, 3, 2])
    number = components(graph).tolist()
    assert number[0] == number[1]
    assert number[2] == number[3]
    assert len({*number}) == 3
