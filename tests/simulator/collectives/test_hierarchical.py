"""Collectives dimension by dimension on a grid of two by two."""

import numpy as np
import pytest

from chakrakit.simulator.collectives.hierarchical import MemberGrid, hierarchical
from support.carried import carry, contributions

SQUARE = np.array([[0, 1], [2, 3]])


def test_a_grid_knows_what_each_member_holds_and_its_neighbours():
    """The first axis is the highest digit of a piece: after it, a member holds one half of four pieces."""
    grid = MemberGrid(SQUARE)
    assert [grid.block(axis) for axis in (0, 1)] == [2, 1]
    assert grid.first_piece(1).tolist() == [0, 0, 2, 2]
    assert grid.first_piece(2).tolist() == [0, 1, 2, 3]
    assert grid.neighbour(0, 1).tolist() == [2, 3, 0, 1]
    assert grid.neighbour(1, 1).tolist() == [1, 0, 3, 2]


def test_reduce_scatter_goes_out_axis_by_axis():
    """Halves to the other row first, then quarters within the row."""
    moves = hierarchical(SQUARE, "reduce-scatter", ["ring", "direct"])
    rows, columns = moves.steps
    assert rows.dst.tolist() == [2, 3, 0, 1]
    assert (rows.first.tolist(), rows.count.tolist()) == ([2, 2, 0, 0], [2, 2, 2, 2])
    assert columns.dst.tolist() == [1, 0, 3, 2]
    assert (columns.base + columns.first).tolist() == [1, 0, 3, 2]
    assert moves.owned.tolist() == [0, 1, 2, 3]


def test_chunks_follow_one_another_through_the_axes():
    """Four phases: phase k of the second chunk waits for its own phase k-1 and the first chunk's phase k."""
    moves = hierarchical(SQUARE, "all-reduce", ["ring", "ring"], chunks=2)
    assert moves.pieces == 8
    assert [moves.after(k) for k in range(4)] == [(), (0,), (1,), (2,)]
    assert [moves.after(k) for k in range(4, 8)] == [(0,), (1, 4), (2, 5), (3, 6)]


@pytest.mark.parametrize("way", ["ring", "direct"])
def test_an_axis_of_one_place_is_skipped(way):
    moves = hierarchical(np.arange(3).reshape(1, 3), "all-reduce", [way, way])
    assert len(moves.steps) == 2
    state = carry(moves, contributions(moves))
    assert all(state[m, p] == {0, 1, 2} for m in range(3) for p in range(moves.pieces))
