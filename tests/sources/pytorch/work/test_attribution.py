"""To which step, phase, module and layer each row belongs."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch import layer_of


def test_modules_are_paths_through_the_python_stack(recording):
    """Ranges of nested modules give a path; a block's number gives the layer."""
    recording.op("aten::mm", 25, 5)
    for name, ts, dur in (("GPT_0", 0, 100), ("Block_3", 10, 50), ("Linear_7", 20, 20)):
        recording._event("python_function", f"nn.Module: {name}", 1, ts, dur)
    found = recording.link().attribution
    assert [found.modules[m] for m in found.module] == ["GPT_0/Block_3/Linear_7"]
    assert found.layer.tolist() == [3]


def test_phases_follow_annotations_and_the_backward_engine(recording):
    recording.op("ProfilerStep#1", 0, 100)
    recording.op("Model.forward", 1, 20)
    recording.op("aten::mm", 2, 5)
    recording.op("autograd::engine::evaluate_function: MmBackward0", 30, 20)
    recording.op("aten::mul", 31, 5)
    recording.op("Optimizer.step#SGD.step", 60, 20)
    recording.op("aten::add_", 61, 5)
    rank = recording.link()
    told = {rank.names[r]: int(rank.attribution.phase[r]) for r in range(len(rank.line))}
    assert (told["aten::mm"], told["aten::mul"], told["aten::add_"]) == (0, 1, 2)
    assert told["ProfilerStep#1"] == -1


def test_a_kernel_belongs_to_the_step_it_was_launched_in(recording):
    """It runs after the step has ended on the host, and an orphan belongs to none."""
    recording.kernel("before", 0, 5, corr=99)
    recording.op("ProfilerStep#3", 10, 20)
    recording.launch(15, start=40, dur=5, corr=1, name="late")
    recording.op("ProfilerStep#4", 35, 20)
    rank = recording.link()
    told = {rank.names[r]: int(rank.attribution.step[r]) for r in range(len(rank.line))}
    assert (told["late"], told["before"], told["ProfilerStep#4"]) == (3, -1, 4)


def test_a_serving_engine_s_outermost_batches_are_its_steps(recording):
    recording.op("step[EXTEND bs=1 toks=9]", 0, 20)
    recording.op("step[DECODE bs=1]", 5, 5)
    recording.op("step[DECODE bs=2]", 30, 5)
    steps = recording.link().attribution.steps
    assert [(s.number, s.end - s.start) for s in steps] == [(0, 20_000), (1, 5_000)]


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        ("model.layers.12.mlp", 12),
        ("h_3/attn", 3),
        ("GPT_0/Block_5/Linear_7", 5),
        ("ResNet_0/Bottleneck_2", 2),
        ("GPT_0/Linear_7", -1),
        ("", -1),
    ],
)
def test_a_module_s_path_names_its_layer(module, layer):
    assert layer_of(module) == layer
