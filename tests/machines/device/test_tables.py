"""Measured operations of one class, and what they say of others."""

import pytest

from chakrakit.machines.device import ClassModel, MeasuredRow
from chakrakit.operators import Operation


def test_rows_whose_shapes_differ_in_length_are_looked_up_by_work():
    rows = (
        MeasuredRow([8, 8], 10.0, 1e6, 1e3),
        MeasuredRow([8, 8, 8], 20.0, 2e6, 2e3),
        MeasuredRow([4], 40.0, 4e6, 4e3),
    )
    found = ClassModel(rows).predict(Operation("gemm", (8, 8), 2e6, 2e3))
    assert found.us == pytest.approx(20.0)
    assert found.extrapolated
