"""What is there before the first step."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Guard, MemoryBudget
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.measure import run_plan
from chakrakit.replayer.runner.storages import bounded, make_externals
from support.replayed import GIB, SETTINGS

torch = pytest.importorskip("torch")


def huge_external(plan):
    plan["externals"][0]["bytes"] = 1 << 46


def view_beyond(plan):
    plan["externals"][0]["views"][0][2] = [1 << 30]


def negative_stride(plan):
    plan["externals"][0]["views"][0][3] = [-1]


def huge_stand_in(plan):
    step = {"do": "stand_in", "name": "x", "made": [[2, "float32", [1 << 44], [1], 0, "cpu"]]}
    plan["steps"] = [step]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (huge_external, "GiB on this machine"),
        (view_beyond, "bytes into a storage of"),
        (negative_stride, "a view of shape"),
        (huge_stand_in, "GiB on this machine"),
    ],
)
def test_a_plan_that_takes_more_than_there_is(plan, change, said):
    change(plan)
    with pytest.raises(ReplayError, match=said):
        run_plan(plan, SETTINGS, None)


def whole(count=8, dtype=torch.float32):
    return torch.arange(count).to(dtype)


def test_a_view_lies_in_the_storage_also_as_another_type():
    base = whole()
    view = bounded(torch, base, torch.float32, [2, 3], [3, 1], 2)
    assert view.tolist() == [[2, 3, 4], [5, 6, 7]]
    raw = bounded(torch, base, torch.uint8, [32], [1], 0)
    assert raw.untyped_storage()._cdata == base.untyped_storage()._cdata


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [([3, 3], [3, 1], 0), ([2], [8], 0), ([8], [1], 1), ([2], [-1], 4), ([2, 2], [1], 0)],
)
def test_a_view_that_reaches_beyond_is_refused(shape, strides, offset):
    with pytest.raises(ReplayError, match="a view of shape"):
        bounded(torch, whole(), torch.float32, shape, strides, offset)


@pytest.mark.parametrize(
    ("fill", "dtype", "holds"),
    [
        ({"kind": "index", "limit": 5}, "int64", lambda t: 0 <= t.min() <= t.max() < 5),
        ({"kind": "zero"}, "int64", lambda t: (t == 0).all()),
        ({"kind": "one"}, "bool", lambda t: t.all()),
        ({"kind": "unset"}, "int32", lambda t: (t < 0).all()),
        ({"kind": "positive"}, "float32", lambda t: (t > 0).all()),
        ({"kind": "normal"}, "bfloat16", lambda t: 0 < t.abs().mean() < 0.1),
    ],
)
def test_values_are_such_that_no_operator_chokes_on_them(fill, dtype, holds):
    external = {
        "bytes": 8 * 40,
        "device": "cpu",
        "dtype": dtype,
        "fill": fill,
        "views": [[0, dtype, [40], [1], 0]],
    }
    slots, guard = [None], Guard(torch, MemoryBudget({"cpu": GIB}))
    make_externals(torch, {"rank": 0, "externals": [external], "steps": []}, slots, "cpu", guard)
    assert bool(holds(slots[0]))
    expected = {"index": (0, 4), "zero": (0, 0), "one": (1, 1)}
    assert guard.ranges.of(slots[0]) == expected.get(fill["kind"])
