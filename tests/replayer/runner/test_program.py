"""The runner on plans of one rank, in this process."""

from __future__ import annotations

import pytest

from support.recorded import ADD, Sheet, tensor
from support.replayed import ONE, checked, plan_text, small_model

torch = pytest.importorskip("torch")

SETTINGS = {"iterations": 2, "warmup": 1, "timeout_s": 60.0}
pytestmark = pytest.mark.filterwarnings("ignore")


def test_nothing_of_a_step_is_left_but_what_was_there_before(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    program = checked(plan)
    program.run()
    kept = {v[0] for e in plan["externals"] for v in e["views"]}
    assert {i for i, t in enumerate(program.slots) if t is not None} == kept


def test_in_place_results_lie_in_the_same_storage(tmp_path):
    sheet = Sheet()
    schema = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    sheet.op("aten::add_", schema, [tensor(1, 4), tensor(2, 4), ONE], [tensor(1, 4)])
    program = checked(plan_text(sheet, tmp_path))
    before = program.slots[0].clone()
    with torch.inference_mode():
        program.run()
    assert torch.allclose(program.slots[0], before + program.slots[1])


@pytest.mark.parametrize(
    ("right", "out", "why"),
    [
        (tensor(2, 3), tensor(3, 4), "must match"),  # PyTorch refuses
        (tensor(2, 4), tensor(3, 2, 2), "gives shape [4] and not [2, 2]"),
    ],
)
def test_what_cannot_be_done_as_recorded_is_replaced_and_counted(tmp_path, right, out, why):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), right, ONE], [out])
    sheet.op("aten::add", ADD, [out, out, ONE], [tensor(4, *out["shape"])])
    program = checked(plan_text(sheet, tmp_path))
    (replaced,) = program.not_covered
    assert replaced["name"] == "aten::add"
    assert why in replaced["why"]
    program.run()


def test_an_operator_this_pytorch_does_not_have_is_replaced(tmp_path):
    sheet = Sheet()
    sheet.op(
        "aten::add",
        ADD.replace("add.Tensor", "add.Unheard"),
        [tensor(1, 4), tensor(1, 4), ONE],
        [tensor(2, 4)],
    )
    program = checked(plan_text(sheet, tmp_path))
    assert "has no aten::add.Unheard" in program.not_covered[0]["why"]
