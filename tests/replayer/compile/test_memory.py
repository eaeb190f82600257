"""Storages over a step: versions of a number, views in slots, and the most that is held."""

from __future__ import annotations

from chakrakit.replayer.compile.memory import PlanMemory, contiguous
from chakrakit.replayer.plan import Call, View
from chakrakit.replayer.tensors import StorageView
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


def lies(storage, *shape, dtype="float32", offset=0):
    steps = contiguous(shape)
    return StorageView(storage, "cpu", dtype, shape, steps, offset)


def test_a_result_is_a_new_storage_unless_it_lies_in_an_input():
    memory = PlanMemory()
    memory.read(lies(1, 4), 0)
    source = memory.find(lies(1, 4))
    assert memory.made(lies(1, 4), [source], 0) is None  # some slot holds it already
    view = memory.made(lies(1, 2), [source], 0)
    assert memory.version_of[view] is source
    fresh = memory.made(lies(1, 4), [], 1)
    assert memory.version_of[fresh] is not source
    assert source.external
    assert not memory.version_of[fresh].external


def test_a_tensor_that_does_not_fit_was_there_before():
    memory = PlanMemory()
    memory.made(lies(1, 4), [], 0)
    assert not memory.find(lies(1, 4)).external
    assert memory.find(lies(1, 8)).external  # larger than what was made
    memory.made(lies(2, 4), [], 0)
    assert memory.find(lies(2, 4, dtype="int64")).external


def test_the_peak_counts_external_storages_throughout_and_others_while_they_are_needed():
    memory = PlanMemory()
    memory.read(lies(9, 256), 0)  # 1 KiB, external
    for step, storage in enumerate((1, 2, 3)):
        slot = memory.made(lies(storage, 512), [], step)
        if step == 0:
            memory.use(slot, 1)
    assert memory.peak(3, lambda device: device) == {"cpu": 1024 + 2 * 2048}


def test_a_limit_goes_to_all_that_an_index_was_copied_from():
    memory = PlanMemory()
    first, copy = (memory.find(lies(s, 4, dtype="int64")) for s in (1, 2))
    copy.copied_from, first.copied_from = [first], [copy]  # a circle ends, too
    memory.limit_index(copy, 10)
    memory.limit_index(first, 7)
    assert (first.limit, copy.limit) == (7, 7)


def test_values_before_the_first_step_are_those_that_no_operator_chokes_on():
    memory = PlanMemory()
    for storage, dtype in enumerate(("float32", "bool", "int64", "int64")):
        memory.read(lies(storage, 4, dtype=dtype), 0)
    memory.limit_index(memory.find(lies(3, 4, dtype="int64")), 10)
    fills = [(e.fill.kind, e.fill.limit) for e in memory.externals(lambda device: device)]
    assert fills == [("normal", 0), ("one", 0), ("zero", 0), ("index", 10)]
