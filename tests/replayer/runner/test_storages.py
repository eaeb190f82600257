"""What is there before the first step."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Guard, Room
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.storages import bounded, make_externals
from support.replayed import checked, plan_text, small_model

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_indices_are_within_range_and_not_all_the_same(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    program = checked(plan)
    (slot,) = (e["views"][0][0] for e in plan["externals"] if e["dtype"] == "int64")
    values = program.slots[slot]
    assert 0 <= int(values.min()) < int(values.max()) < 50


def whole(elements=16):
    return torch.zeros(elements)


def test_a_view_lies_where_it_says_and_may_have_another_type():
    base = whole()
    found = bounded(torch, base, torch.float32, [2, 3], [4, 1], 5)
    found.fill_(7)
    assert base.nonzero().flatten().tolist() == [5, 6, 7, 9, 10, 11]
    assert bounded(torch, base, torch.int64, [8], [1], 0).shape == (8,)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "said"),
    [
        ([17], [1], 0, r"reaches 68 bytes into a storage of 64"),
        ([2], [1], 15, r"reaches 68 bytes"),
        ([2], [-1], 5, "a view of shape"),
        ([2, 2], [1], 0, "a view of shape"),
        ([2], [1], -1, "a view of shape"),
    ],
)
def test_a_view_beyond_its_storage_is_refused(shape, strides, offset, said):
    with pytest.raises(ReplayError, match=said):
        bounded(torch, whole(), torch.float32, shape, strides, offset)


def test_an_empty_view_reaches_nowhere():
    assert bounded(torch, whole(), torch.float32, [0, 99], [99, 1], 16).numel() == 0


@pytest.mark.parametrize(
    ("dtype", "fill", "holds"),
    [
        ("float32", {"kind": "normal"}, lambda t: 0 < t.std() < 0.1 and t.min() < 0),
        ("float32", {"kind": "positive"}, lambda t: t.min() > 0),
        ("float32", {"kind": "one"}, lambda t: (t == 1).all()),
        ("int64", {"kind": "zero"}, lambda t: (t == 0).all()),
        ("int64", {"kind": "index", "limit": 9}, lambda t: t.min() >= 0 and t.max() < 9),
        ("int64", {"kind": "unset"}, lambda t: t.max() < -(1 << 62)),
    ],
)
def test_values_are_as_the_plan_says(dtype, fill, holds):
    external = {"bytes": 4096, "device": "cpu", "dtype": dtype, "fill": fill}
    view = [0, dtype, [4096 // (4 if dtype == "float32" else 8)], [1], 0]
    plan = {"rank": 0, "steps": [], "externals": [{**external, "views": [view]}]}
    slots = [None]
    make_externals(torch, plan, slots, "cpu", Guard(torch, Room({"cpu": 1 << 30})))
    assert bool(holds(slots[0]))
