"""Communication operators of a recording: which group, which tensors, and what is left in a smaller group."""

from __future__ import annotations

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.plan import Call, Collective, Wait
from chakrakit.sources.pytorch.recorder import REDUCE_MARK
from support.recorded import ALL_REDUCE, FUNCTIONAL, Sheet, plain, tensor
from support.replayed import plan_of, reduce_of

GATHER = (
    "c10d::_allgather_base_(Tensor output_tensor, Tensor input_tensor, "
    "__torch__.torch.classes.c10d.ProcessGroup process_group, bool async_op=True, int timeout=-1) "
    "-> (Tensor, __torch__.torch.classes.c10d.Work)"
)


def elements(plan, slot):
    (shape,) = [v[2] for e in plan.externals for v in e.views if v[0] == slot]
    return shape


@pytest.mark.parametrize(("shrink", "size"), [("keep", 4), ("scale", 16)])
def test_a_gather_of_one_of_four_keeps_its_part_or_the_whole(tmp_path, shrink, size):
    """Rank 0 alone was recorded: it put 4 elements in and got 16."""
    sheet = Sheet()
    sheet.groups(("0", [0, 1, 2, 3]))
    rest = [plain("<Object>", "Object"), plain(True, "Bool"), plain(-1, "Int")]
    sheet.op("c10d::_allgather_base_", GATHER, [tensor(1, 16), tensor(2, 4), *rest])
    plan = plan_of(sheet, tmp_path, shrink=shrink)
    step = plan.steps[0]
    assert step.op == "all_gather_flat"
    assert elements(plan, step.inputs[0]) == [size]
    assert elements(plan, step.outputs[0]) == [size]


def test_the_reduction_is_the_operator_s_own_or_what_the_collector_wrote_around_it(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]))
    mark = sheet.op(f"{REDUCE_MARK}max", "", [])
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1), parent=mark)
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(2))
    plan = plan_of(sheet, tmp_path)
    assert [s.reduce for s in plan.steps if isinstance(s, Collective)] == ["max", "sum"]


def test_an_operator_that_names_its_group_is_called_as_it_is_where_the_group_is_whole(tmp_path):
    def reduced(members):
        sheet = Sheet()
        sheet.groups(("0", [0, 1]), ("3", members))
        given = [tensor(1, 4), plain("sum", "String"), plain("3", "String")]
        sheet.op("_c10d_functional::all_reduce", FUNCTIONAL, given, [tensor(2, 4)])
        return [type(step) for step in plan_of(sheet, tmp_path).steps]

    assert reduced([0]) == [Call]
    assert reduced([0, 1]) == [Call, Collective, Wait]  # what it would have made, and the rest


def test_a_root_outside_of_its_group_is_refused(tmp_path):
    schema = (
        "c10d::broadcast_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, "
        "int root_rank, int root_tensor) -> (Tensor[], __torch__.torch.classes.c10d.Work)"
    )
    sheet = Sheet()
    sheet.groups(("0", [0]))
    given = [*reduce_of(1)[:2], plain(5, "Int"), plain(0, "Int")]
    sheet.op("c10d::broadcast_", schema, given)
    with pytest.raises(TraceError, match="root_rank 5 in a group of 1"):
        plan_of(sheet, tmp_path)
