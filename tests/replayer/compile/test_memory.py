"""Storages over a step: who made each, how long it is needed, and which slot holds which view."""

from __future__ import annotations

import pytest

from chakrakit.replayer.compile.memory import Memory
from chakrakit.replayer.compile.pool import contiguous
from chakrakit.replayer.plan import Tensor
from chakrakit.replayer.plan.plan import Call, View
from support.recorded import ADD, Sheet, tensor
from support.replayed import ONE, plan_of


def test_a_storage_number_used_again_is_another_storage(tmp_path):
    """The second result has the first one's address: the first was free by then."""
    sheet = Sheet()
    for _ in range(2):
        sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(2, 4)])
    plan = plan_of(sheet, tmp_path)
    first, second = plan.steps
    assert first.outs != second.outs
    assert first.free == first.outs  # nobody reads it
    assert len(plan.externals) == 1
    assert plan.memory == {"cpu": 32}


def test_a_storage_nobody_made_stays_for_all_iterations(tmp_path):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(2, 2, 2), ONE], [tensor(3, 4)])
    plan = plan_of(sheet, tmp_path)
    assert [e.bytes for e in plan.externals] == [16, 16]
    kept = {v[0] for e in plan.externals for v in e.views}
    assert not kept & {s for step in plan.steps for s in step.free}


def test_a_view_nobody_made_is_made_from_its_storage(tmp_path):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(2, 2, 2), tensor(2, 2, 2), ONE], [tensor(3, 2, 2)])
    plan = plan_of(sheet, tmp_path)
    assert [type(s) for s in plan.steps] == [Call, View, Call]
    assert plan.steps[1].base == plan.steps[0].outs[0]


def view(storage, *shape, dtype="float32", offset=0):
    return Tensor(storage, "cpu", dtype, shape, contiguous(shape), offset)


def same(device):
    return device


def test_views_of_a_storage_share_it_and_have_slots_of_their_own():
    memory = Memory()
    whole, _ = memory.read(view(1, 8), 0)
    part, made = memory.read(view(1, 2, 4), 1)
    assert (whole, part, made) == (0, 1, None)
    assert memory.read(view(1, 8), 2)[0] == whole
    (external,) = memory.externals(same)
    assert (external.bytes, [v[0] for v in external.views]) == (32, [0, 1])
    assert memory.last_use == {0: 2, 1: 1}


def test_a_result_in_an_input_s_storage_is_a_view_of_it():
    memory = Memory()
    slot, _ = memory.read(view(1, 8), 0)
    version = memory.find(view(1, 8))
    assert memory.made(view(1, 8), [version], 0) is None
    reshaped = memory.made(view(1, 2, 4), [version], 0)
    assert memory.version_of[reshaped] is version
    fresh = memory.made(view(1, 8), [], 1)  # the same address, but nobody gave it in
    assert memory.version_of[fresh] is not memory.version_of[slot]


def test_the_most_that_is_held_at_once():
    """An external of 32 bytes all the time; 16 bytes in steps 0 and 1, 64 bytes in step 1 alone."""
    memory = Memory()
    memory.read(view(1, 8), 0)
    small = memory.made(view(2, 4), [], 0)
    memory.made(view(3, 16), [], 1)
    memory.use(small, 1)
    assert memory.peak(3, same) == {"cpu": 32 + 16 + 64}


def test_an_index_s_limit_is_that_of_what_it_was_copied_from():
    memory = Memory()
    source, copy = memory.find(view(1, 4, dtype="int64")), memory.find(view(2, 4, dtype="int64"))
    copy.copied_from.append(source)
    source.copied_from.append(copy)  # a circle ends
    memory.limit_index(copy, 50)
    memory.limit_index(source, 90)
    assert (copy.limit, source.limit) == (50, 50)


@pytest.mark.parametrize(
    ("dtype", "facts", "fill"),
    [
        ("float32", {}, "normal"),
        ("float32", {"positive": True}, "positive"),
        ("float32", {"unit": True}, "one"),
        ("bool", {}, "one"),
        ("int64", {}, "zero"),
        ("int64", {"limit": 9}, "index"),
        ("int64", {"unset": True}, "unset"),
    ],
)
def test_values_that_no_operator_chokes_on(dtype, facts, fill):
    memory = Memory()
    memory.read(view(1, 4, dtype=dtype), 0)
    for name, value in facts.items():
        setattr(memory.versions[0], name, value)
    assert memory.externals(same)[0].fill.kind == fill
