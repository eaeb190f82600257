"""The guard: what a trace or a plan asks for is tried without memory before PyTorch is asked."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import (
    DryRun,
    MemoryBudget,
    Refused,
    TensorResult,
    memory_budget,
)
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.measure import run_plan
from support.recorded import ADD, Sheet, plain, tensor
from support.replayed import SETTINGS, examined, plan_text

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


@pytest.mark.slow
def test_normalisation_with_too_few_factors_is_not_called(tmp_path):
    schema = (
        "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    )
    given = [tensor(1, 2, 4096, 8, 8), *(tensor(n, 2) for n in (2, 3, 4, 5))]
    given += [plain(True, "Bool"), plain(0.1, "Double"), plain(1e-5, "Double")]
    sheet = Sheet()
    sheet.op("aten::native_batch_norm", schema, given, [tensor(6, 2, 4096, 8, 8)])
    assert "expected shape" in not_covered(sheet, tmp_path)["aten::native_batch_norm"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_index_limit_that_a_plan_made_up_is_not_believed(tmp_path):
    schema = (
        "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
        "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"
    )
    small, large = (2, 3, 2, 2), (2, 3, 4, 4)
    pairs = [plain([n, n], "GenericList[Int,Int]") for n in (2, 2, 0, 1)]
    given = [tensor(1, *small), tensor(2, *large), *pairs, plain(False, "Bool")]
    sheet = Sheet()
    sheet.op(
        "aten::max_pool2d_with_indices_backward",
        schema,
        [*given, tensor(3, *small, dtype="long int")],
        [tensor(4, *large)],
    )
    plan = plan_text(sheet, tmp_path)
    (indices,) = (e for e in plan["externals"] if e["dtype"] == "int64")
    indices["fill"] = {"kind": "index", "limit": 1 << 60}
    assert run_plan(plan, SETTINGS, None)["not_covered"] == []


torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


aten = torch.ops.aten


def asked(operator, **given):
    return DryRun(torch).results(operator, given)


def test_results_have_a_shape_and_bytes_and_views_have_none():
    x = torch.zeros(4, 6)
    assert asked(aten.mm.default, self=x, mat2=torch.zeros(6, 2)) == [TensorResult([4, 2], 32)]
    assert asked(aten.t.default, self=x) == [TensorResult([6, 4], 0)]
    assert asked(aten.topk.default, self=x, k=2) == [
        TensorResult([4, 2], 32),
        TensorResult([4, 2], 64),
    ]


def test_sizes_that_no_machine_has_are_known_without_taking_them():
    for device in ({"device": "cpu"}, {}):
        (found,) = asked(aten.zeros.default, size=[1 << 40], **device)
        assert found == TensorResult([1 << 40], 4 << 40)


@pytest.mark.parametrize(
    ("operator", "given", "said"),
    [
        (aten.mm.default, {"self": torch.zeros(2, 3), "mat2": torch.zeros(2, 3)}, "reduction dim"),
        (aten.native_layer_norm.default, {"input": 0, "normalized_shape": [4]}, "input"),
        (aten._grouped_mm.default, {"self": torch.zeros(2), "mat2": None}, ""),
    ],
)
def test_what_pytorch_refuses_without_memory_is_not_called(operator, given, said):
    with pytest.raises(Refused, match=said):
        asked(operator, **given)


def test_an_operator_that_resizes_what_it_is_given_is_refused_each_time():
    dry, out = DryRun(torch), torch.zeros(1)
    given = {"self": torch.zeros(4), "other": torch.zeros(4), "out": out}
    for _ in range(2):
        with pytest.raises(Refused, match="resizes what it was given"):
            dry.results(aten.add.out, given)
    assert out.shape == (1,)


torch = pytest.importorskip("torch")


def f(*shape):
    return torch.zeros(shape)


def test_more_than_the_room_is_refused_before_it_is_taken():
    with pytest.raises(ReplayError, match="GiB on this machine"):
        examined(torch.ops.aten.repeat.default, (f(1024), [1 << 20]))


def test_storages_count_once_and_give_their_bytes_back_with_their_last_slot():
    budget, tensor = MemoryBudget({"cpu": 200}), torch.zeros(25)
    budget.put(0, tensor)
    budget.put(1, tensor[5:])
    budget.ask("cpu", 100)
    with pytest.raises(ReplayError, match="on this machine"):
        budget.ask("cpu", 101)
    budget.drop(0)
    with pytest.raises(ReplayError):
        budget.ask("cpu", 101)
    budget.drop(1)
    budget.drop(1)
    budget.ask("cpu", 200)


def test_a_slot_that_is_filled_again_holds_what_is_there_now():
    budget = MemoryBudget({"cpu": 200})
    budget.put(0, torch.zeros(25))
    budget.put(0, torch.zeros(1))
    budget.ask("cpu", 196)
    with pytest.raises(ReplayError):
        budget.ask("cpu:0", 197)


def test_a_device_that_is_not_there_has_no_room():
    with pytest.raises(ReplayError, match="the GPU"):
        MemoryBudget({"cpu": 200}).ask("cuda:1", 1)


def test_ranks_on_one_machine_share_its_memory():
    one, four = (memory_budget(torch, "cpu", n).limits["cpu"] for n in (1, 4))
    assert four == pytest.approx(one / 4, rel=0.2)
