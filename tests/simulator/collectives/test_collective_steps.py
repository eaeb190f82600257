"""A collective as steps: what waits for what, and single numbers that count for all transfers."""

import numpy as np
import pytest

from chakrakit.simulator.collectives import CollectiveSteps
from chakrakit.simulator.collectives.collective_steps import step


def test_a_step_waits_for_the_one_before_unless_it_says_otherwise():
    plain = step([0], [1], 0, 1, 4)
    moves = CollectiveSteps(
        2,
        4,
        (plain, plain, step([0], [1], 0, 1, 4, after=()), step([0], [1], 0, 1, 4, after=(0, 2))),
    )
    assert [moves.after(k) for k in range(4)] == [(), (0,), (), (0, 2)]


def test_transfers_are_counted_once_however_often_a_step_repeats():
    moves = CollectiveSteps(
        3, 3, (step([0, 1, 2], [1, 2, 0], 0, 1, 3, repeat=2), step([0], [1], 0, 1, 3))
    )
    assert moves.transfers() == 4
    assert moves.owned.tolist() == []


def test_single_numbers_count_for_all_transfers_of_a_step():
    made = step(range(3), np.array([1, 2, 0]), [2, 0, 1], 5, 8, reduce=True)
    assert made.src.tolist() == [0, 1, 2]
    assert made.first.tolist() == [2, 0, 1]
    assert made.count.tolist() == [5, 5, 5]
    assert (made.reduce, made.modulus, made.repeat, made.after) == (True, 8, 1, None)


def test_as_many_first_pieces_as_transfers_or_one():
    with pytest.raises(ValueError, match="broadcast"):
        step([0, 1, 2], [1, 2, 0], [0, 1], 1, 3)
