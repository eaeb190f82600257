"""Values handed down the nesting of rows: the nearest above counts, however deep."""

from types import SimpleNamespace

import numpy as np

from chakrakit.sources.pytorch.match.rows import inherit


def handed_down(parent, values):
    return inherit(SimpleNamespace(parent=np.array(parent)), np.array(values)).tolist()


def test_the_nearest_row_above_that_has_a_value():
    assert handed_down([-1, 0, 1, 2, -1, 4], [7, -1, 3, -1, -1, -1]) == [7, 7, 3, 3, -1, -1]


def test_rows_nested_forty_thousand_deep():
    """Looks double their reach: a handful of rounds, not one for every level."""
    depth = 40_000
    values = np.full(depth, -1)
    values[0] = 5
    assert set(handed_down(np.arange(-1, depth - 1), values)) == {5}
