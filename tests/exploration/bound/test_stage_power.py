"""What a power limit does to a stage."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.exploration.bound import StagePower
from chakrakit.machines.device import Roofline

DEVICE = ck.load_machine("dgx-h100").devices[0]
SECOND = 10**12


def power(**changes) -> StagePower:
    """Two kinds of rows: a large matmul in bf16, and one that nothing is known of."""
    t = ck.TraceBuilder()
    t.comp("aten::mm", num_ops=4 * 10**14, tensor_size=10**9, dtype="bf16")
    t.comp("unknown")
    device = msgspec.structs.replace(DEVICE, **changes)
    return StagePower(t.build(), Roofline(), device, np.array([0, 1, 0]))


def test_a_step_that_mostly_waits_runs_at_the_highest_clock() -> None:
    draw, least = power().clock([(slice(0, 3), 1)], 100 * SECOND)
    assert draw.share == 1
    assert 0 < least < 100 * SECOND


def test_a_low_limit_holds_computation_back_and_nothing_else() -> None:
    """At half its power the device runs slower, and matmuls take longer in proportion."""
    low = power(power=DEVICE.power / 2)
    draw, least = low.clock([(slice(0, 3), 4)], 0)
    assert draw.share < 1
    rows, times = np.array([0, 1, 2]), np.array([1000, 1000, 2000])
    longer = low.longer(rows, times, draw)
    assert longer[0] > 1000
    assert longer[1] == 1000
    assert longer[2] == pytest.approx(2 * longer[0], abs=1)
    half = low.clock([(slice(0, 3), 2)], 0)[1]
    assert least == pytest.approx(2 * half, rel=1e-3)
