"""Which rows of a recording are replayed: the outermost operators that do the work themselves."""

from __future__ import annotations

from chakrakit.replayer.plan.plan import Call, StandIn
from support.recorded import ADD, MM, Sheet, tensor
from support.replayed import ONE, plan_of


def test_an_operator_that_only_calls_others_is_opened(tmp_path):
    sheet = Sheet()
    linear = sheet.op(
        "aten::linear",
        "aten::linear(Tensor input, Tensor weight) -> Tensor",
        [tensor(1, 2, 3), tensor(2, 3, 4)],
        [tensor(3, 2, 4)],
    )
    sheet.op("aten::mm", MM, [tensor(1, 2, 3), tensor(2, 3, 4)], [tensor(3, 2, 4)], parent=linear)
    plan = plan_of(sheet, tmp_path)
    assert [s.op for s in plan.steps] == ["aten::mm"]


def test_what_runs_inside_a_replayed_operator_is_its_own_affair(tmp_path):
    sheet = Sheet()
    mm = sheet.op("aten::mm", MM, [tensor(1, 2, 3), tensor(2, 3, 4)], [tensor(3, 2, 4)])
    sheet.op(
        "aten::add", ADD, [tensor(1, 2, 3), tensor(1, 2, 3), ONE], [tensor(9, 2, 3)], parent=mm
    )
    assert [s.op for s in plan_of(sheet, tmp_path).steps] == ["aten::mm"]


def test_fused_code_gets_a_stand_in_and_what_it_called_is_replayed(tmp_path):
    sheet = Sheet()
    graph = sheet.op("## Call CompiledFxGraph f00 ##", "", [])
    sheet.op("aten::mm", MM, [tensor(1, 2, 3), tensor(2, 3, 4)], [tensor(3, 2, 4)], parent=graph)
    assert [type(s) for s in plan_of(sheet, tmp_path).steps] == [StandIn, Call]
