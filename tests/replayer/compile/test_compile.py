"""What becomes of a recorded operator: which are replayed, where their tensors are, what is waited for."""

from __future__ import annotations

import pytest

from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.plan import Call, Collective, StandIn
from chakrakit.replayer.session import prepare
from chakrakit.sources.pytorch.linking import link
from support.recorded import ADD, ALL_REDUCE, DATA, MM, Sheet, linked, tensor
from support.replayed import ONE, plan_of, reduce_of


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


def test_an_unknown_operator_gets_a_stand_in_with_its_results(tmp_path):
    sheet = Sheet()
    sheet.op("mine::twice", "mine::twice(Tensor x) -> Tensor", [tensor(1, 4)], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(2, 4), tensor(2, 4), ONE], [tensor(3, 4)])
    plan = plan_of(sheet, tmp_path)
    stand_in, call = plan.steps
    assert isinstance(stand_in, StandIn)
    assert stand_in.name == "mine::twice"
    assert call.args[0] == {"slot": stand_in.made[0][0]}
    assert plan.count == [1, 2]


def test_a_call_with_a_sparse_tensor_gets_a_stand_in(tmp_path):
    """PyTorch records neither the storage nor the device of one."""
    sparse = tensor(1, 8, 16) | {"value": [60, 0, 0, 0, 0, ""], "strides": [0, 0]}
    sheet = Sheet()
    sheet.op("aten::mm", MM, [sparse, tensor(2, 16, 4)], [tensor(3, 8, 4)])
    sheet.op("aten::add", ADD, [tensor(3, 8, 4), tensor(3, 8, 4), ONE], [tensor(4, 8, 4)])
    plan = plan_of(sheet, tmp_path)
    assert [type(s) for s in plan.steps] == [StandIn, Call]
    assert plan.steps[0].name == "aten::mm (sparse tensors)"
    assert plan.count == [1, 2]


def test_fused_code_gets_a_stand_in_and_what_it_called_is_replayed(tmp_path):
    sheet = Sheet()
    graph = sheet.op("## Call CompiledFxGraph f00 ##", "", [])
    sheet.op("aten::mm", MM, [tensor(1, 2, 3), tensor(2, 3, 4)], [tensor(3, 2, 4)], parent=graph)
    assert [type(s) for s in plan_of(sheet, tmp_path).steps] == [StandIn, Call]


def test_compute_mode_leaves_communication_out(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]))
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1))
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(5, 4), ONE], [tensor(7, 4)])
    plan = plan_of(sheet, tmp_path, mode="compute")
    assert [type(s) for s in plan.steps] == [Call]
    assert plan.count == [1, 1]


@pytest.mark.parametrize(
    ("name", "steps", "collectives"),
    [("cnn_ddp_2", 493, 3), ("gpt_pp_2", 484, 4), ("gpt_fsdp_tp_4", 988, 8)],
)
def test_recorded_steps_are_covered(name, steps, collectives):
    """Every operator of these is replayed; `cat.out` as the `cat` that makes what it was handed."""
    plan = prepare(linked(name), ReplayOptions()).plans[0]
    assert plan.count[0] == plan.count[1]
    assert plan.time_ns[0] == plan.time_ns[1]
    assert sum(isinstance(s, Call) for s in plan.steps) == steps
    assert sum(isinstance(s, Collective) for s in plan.steps) == collectives


@pytest.mark.slow
def test_kernels_of_a_gpu_step_all_belong_to_operators():
    traces, _ = link(
        [DATA / "resnet50_b128" / "et.json.gz", DATA / "resnet50_b128" / "kineto.json.gz"]
    )
    plan = prepare(traces, ReplayOptions(device="cuda")).plans[0]
    assert plan.count == [757, 757]
    assert plan.time_ns[0] == plan.time_ns[1] == 28_505_376
    assert {s.thread for s in plan.steps} == {0, 1}  # forward and backward
    # The allocator held 6.086 GB when it was recorded.
    assert plan.memory["cuda"] == pytest.approx(6.086e9, rel=0.05)
