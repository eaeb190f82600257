"""Attributes kept as bytes can be taken out by name."""

import numpy as np
import pyarrow as pa

from chakrakit.trace.model import Layout, Layouts, Member
from chakrakit.trace.model.layouts import RAW_COLUMN, without_raw
from chakrakit.trace.model.wire import attribute, frame

OLD, NEW = (frame(attribute(n, Member.int64_val, 7)) for n in ("old", "new"))
BOTH = Layout(0, ((None, 0), (None, 0)))
ONE = Layout(0, ((None, 0),))


def test_only_the_named_attribute_goes_and_its_row_gets_another_layout():
    table = pa.table({RAW_COLUMN: pa.array([OLD + NEW, NEW, None], pa.binary())})
    rows = np.array([0, 1, 2], np.int32)
    changed, layouts, numbers = without_raw(table, Layouts((BOTH, ONE, Layout())), rows, "old")
    assert changed.column(RAW_COLUMN).to_pylist() == [NEW, NEW, None]
    assert [layouts.items[n] for n in numbers] == [ONE, ONE, Layout()]


def test_a_row_left_with_none_has_none():
    table = pa.table({RAW_COLUMN: pa.array([OLD], pa.binary())})
    changed, layouts, numbers = without_raw(table, Layouts((ONE,)), np.zeros(1, np.int32), "old")
    assert changed.column(RAW_COLUMN).to_pylist() == [None]
    assert layouts.items[numbers[0]] == Layout()


def test_a_name_that_only_occurs_inside_another_changes_nothing():
    """`ol` is part of `old`, and no attribute's name."""
    table = pa.table({RAW_COLUMN: pa.array([OLD], pa.binary())})
    assert without_raw(table, Layouts((ONE,)), np.zeros(1, np.int32), "ol")[0] is table
