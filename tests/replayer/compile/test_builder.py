"""Steps as they are put together: communication is waited for where it must be, and at the end."""

from __future__ import annotations

from chakrakit.replayer.plan import Call, Collective, Wait
from support.recorded import ADD, ALL_REDUCE, Sheet, tensor
from support.replayed import ONE, plan_of, reduce_of


def test_communication_is_waited_for_where_its_result_is_used(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]))
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1))
    sheet.op("aten::add", ADD, [tensor(5, 4), tensor(5, 4), ONE], [tensor(6, 4)])
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(5, 4), ONE], [tensor(7, 4)])
    steps = plan_of(sheet, tmp_path).steps
    assert [type(s) for s in steps] == [Collective, Call, Wait, Call]


def test_what_nobody_waits_for_is_over_at_the_end(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]))
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1))
    assert [type(s) for s in plan_of(sheet, tmp_path).steps] == [Collective, Wait]


def test_a_source_that_is_overwritten_is_waited_for_and_one_that_is_read_is_not(tmp_path):
    """An all-reduce works on storage 1; a sum into it must wait, whatever it reads."""
    sheet = Sheet()
    sheet.groups(("0", [0]))
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1))
    sheet.op(
        "aten::add_",
        ADD.replace("add(", "add_("),
        [tensor(1, 4), tensor(5, 4), ONE],
        [tensor(1, 4)],
    )
    assert [type(s) for s in plan_of(sheet, tmp_path).steps] == [Collective, Wait, Call]


def test_slots_are_freed_after_their_last_use(tmp_path):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(2, 4), tensor(2, 4), ONE], [tensor(3, 4)])
    first, second = plan_of(sheet, tmp_path).steps
    made = first.made[0][0]
    assert first.free == []
    assert made in second.free  # and its own result, which nobody reads
    assert len(second.free) == 2
