"""The sandbox: what a trace or a plan asks for is held against real tensors before PyTorch is asked."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.measure import run_plan
from support.recorded import ADD, Sheet, plain, several, tensor
from support.replayed import SETTINGS, plan_text

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.filterwarnings("ignore")


def not_covered(sheet, folder):
    """What a replay of one rank could not do, and why."""
    found = run_plan(plan_text(sheet, folder), SETTINGS, None)
    return {n["name"]: n["why"] for n in found["not_covered"]}


def test_a_view_beyond_its_storage_is_not_made(tmp_path):
    """Nobody else checks `_reshape_alias`; filling the view would write past 16 bytes."""
    sheet = Sheet()
    alias = "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"
    size, stride = plain([1 << 20], "GenericList[Int]"), plain([1], "GenericList[Int]")
    view = tensor(1, 1 << 20)
    sheet.op("aten::add", ADD, [tensor(2, 4), tensor(2, 4), plain(1, "Int")], [tensor(1, 4)])
    sheet.op("aten::_reshape_alias", alias, [tensor(1, 4), size, stride], [view])
    fill = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
    sheet.op("aten::fill_", fill, [view, plain(7, "Int")], [view])
    assert "out of bounds for storage" in not_covered(sheet, tmp_path)["aten::as_strided"]


ADAM = (
    "aten::_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
    "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, "
    "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
)


def test_an_optimizer_whose_state_is_too_small_is_not_called(tmp_path):
    lists = [several(tensor(1, 1 << 20)), several(tensor(2, 1 << 20)), several(tensor(3, 4))]
    lists += [several(tensor(4, 4)), several(), several(tensor(5, 1))]
    numbers = [plain(x, "Double") for x in (0.1, 0.9, 0.99, 0.0, 1e-8)]
    flags = [plain(False, "Bool")] * 2 + [plain("<None>", "None")] * 2
    sheet = Sheet()
    sheet.op("aten::_fused_adam_", ADAM, [*lists, *numbers, *flags])
    assert "laid out unlike its parameter" in not_covered(sheet, tmp_path)["aten::_fused_adam_"]


def test_normalisation_with_too_few_factors_is_not_called(tmp_path):
    schema = (
        "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    )
    given = [tensor(1, 2, 4096, 8, 8), *(tensor(n, 2) for n in (2, 3, 4, 5))]
    given += [plain(True, "Bool"), plain(0.1, "Double"), plain(1e-5, "Double")]
    sheet = Sheet()
    sheet.op("aten::native_batch_norm", schema, given, [tensor(6, 2, 4096, 8, 8)])
    why = not_covered(sheet, tmp_path)["aten::native_batch_norm"]
    assert why == "weight has 2 values, not 4096"


def test_what_is_allocated_is_what_is_asked_for_not_what_was_recorded(tmp_path):
    """4.8 GB recorded as 16 bytes: the size is known before PyTorch is asked for it."""
    schema = (
        "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor"
    )
    nothing = plain("<None>", "None")
    sheet = Sheet()
    size = plain([1_200_000_000], "GenericList[Int]")
    sheet.op("aten::zeros", schema, [size, plain(6, "Int"), *[nothing] * 3], [tensor(1, 4)])
    why = not_covered(sheet, tmp_path)["aten::zeros"]
    assert why == "gives shape [1200000000] and not [4]"


def test_an_index_limit_that_a_plan_made_up_is_not_believed(tmp_path):
    schema = (
        "aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
        "int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
    )
    small, large = (2, 3, 2, 2, 2), (2, 3, 4, 4, 4)
    threes = [plain(x, "GenericList[Int,Int,Int]") for x in ([2] * 3, [2] * 3, [0] * 3, [1] * 3)]
    given = [tensor(1, *small), tensor(2, *large), *threes, plain(False, "Bool")]
    sheet = Sheet()
    sheet.op(
        "aten::max_pool3d_with_indices_backward",
        schema,
        [*given, tensor(3, *small, dtype="long int")],
        [tensor(4, *large)],
    )
    plan = plan_text(sheet, tmp_path)
    (indices,) = (e for e in plan["externals"] if e["dtype"] == "int64")
    indices["fill"] = {"kind": "index", "limit": 1 << 60}
    assert run_plan(plan, SETTINGS, None)["not_covered"] == []
