"""What differs among values and rows, as NumPy gives it."""

import numpy as np
import pytest

from chakrakit.arrays import distinct, distinct_rows, is_among


@pytest.mark.parametrize("values", [[], [3], [5, 5, -1, 2**62, 5, -(2**63)]])
def test_values_that_differ_in_order(values):
    given = np.array(values, np.int64)
    assert distinct(given).tolist() == np.unique(given).tolist()
    assert given.tolist() == values


@pytest.mark.parametrize("known", [[], [3], [9, -(2**63), 3, 3, 2**62]])
def test_values_among_others(known):
    values = np.array([3, 4, -(2**63), 2**63 - 1, 9, 2**62, 3], np.int64)
    among = is_among(values, np.array(known, np.int64))
    assert among.tolist() == np.isin(values, np.array(known, np.int64)).tolist()


@pytest.mark.parametrize("size", [0, 1, 200])
def test_rows_that_differ_in_order_and_which_each_row_is(size):
    table = np.random.default_rng(7).integers(-3, 4, (size, 3))
    rows, which = distinct_rows(list(table.T))
    expected, inverse = np.unique(table, axis=0, return_inverse=True)
    assert rows.tolist() == expected.tolist()
    assert which.tolist() == inverse.reshape(-1).tolist()
