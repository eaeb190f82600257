"""Whether products and convolutions of fp32 may round to TF32, as programs set it, reaches their times."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import read
from chakrakit.machines import load_machine
from chakrakit.machines.device import CostSource, find_profile, work_model
from chakrakit.sources.capture import capture_command

PROGRAM = """
import torch
from torch import nn
{setting}
m = nn.{layer}.cuda()
opt = torch.optim.SGD(m.parameters(), lr=1e-3)
for _ in range(2):
    m(torch.randn({shape}, device="cuda")).sum().backward()
    opt.step()
    opt.zero_grad()
"""
LINEAR = {"layer": "Linear(4096, 4096, bias=False)", "shape": "4096, 4096"}
CONVOLUTION = {"layer": "Conv2d(256, 256, 3, padding=1, bias=False)", "shape": "32, 256, 56, 56"}
RECURRENT = {"layer": "LSTM(256, 256)", "shape": "64, 32, 256"}


def captured(folder: Path, setting: str, kind: dict[str, str]):
    if kind is RECURRENT:
        kind = kind | {"layer": "Sequential(nn.LSTM(256, 256), First())"}
        setting += "\nFirst = type('First', (nn.Module,), {'forward': lambda _, x: x[0]})"
    script = folder / "train.py"
    script.write_text(PROGRAM.format(setting=setting, **kind))
    capture_command(["python", str(script)], folder / "out", ranks=1, device="h100")
    return read(folder / "out")[0]


def products(trace):
    codes, names = trace.texts("op_type")
    return [row for row in range(len(trace)) if codes[row] >= 0 and names[codes[row]] == "matmul"]


def types(trace) -> set[str]:
    codes, names = trace.texts("dtype")
    return {names[codes[row]] for row in products(trace)}


@pytest.mark.parametrize(
    ("setting", "kind", "expected"),
    [
        ("", LINEAR, "fp32"),
        ("torch.set_float32_matmul_precision('high')", LINEAR, "tf32"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", LINEAR, "tf32"),
        ("torch.backends.cuda.matmul.fp32_precision = 'tf32'", LINEAR, "tf32"),
        ("torch.backends.cudnn.allow_tf32 = False", LINEAR, "fp32"),
        ("", CONVOLUTION, "tf32"),
        ("torch.backends.cudnn.allow_tf32 = False", CONVOLUTION, "fp32"),
        ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", CONVOLUTION, "fp32"),
        ("", RECURRENT, "tf32"),
        ("torch.backends.cudnn.allow_tf32 = False", RECURRENT, "fp32"),
    ],
)
def test_work_of_fp32_says_whether_it_may_round(tmp_path, setting, kind, expected):
    assert types(captured(tmp_path, setting, kind)) == {expected}


def test_a_setting_holds_for_the_calls_after_it(tmp_path):
    setting = "torch.set_float32_matmul_precision('high')\nnn.Linear(8, 8).cuda()\n"
    changed = {**LINEAR, "layer": LINEAR["layer"] + ".requires_grad_()"}
    body = PROGRAM.replace(
        "    opt.step()", "    torch.set_float32_matmul_precision('highest')\n    opt.step()"
    )
    script = tmp_path / "train.py"
    script.write_text(body.format(setting=setting, **changed))
    capture_command(["python", str(script)], tmp_path / "out", ranks=1, device="h100", steps=(0, 2))
    trace = read(tmp_path / "out")[0]
    codes, names = trace.texts("dtype")
    steps = trace.step
    by_step = {
        step: {names[codes[r]] for r in products(trace) if steps[r] == step} for step in (0, 1)
    }
    assert by_step == {0: {"tf32"}, 1: {"fp32"}}


@pytest.mark.parametrize(
    ("kind", "rounded", "plain"),
    [
        (LINEAR, "torch.set_float32_matmul_precision('high')", ""),
        (CONVOLUTION, "", "torch.backends.cudnn.allow_tf32 = False"),
    ],
)
def test_times_are_below_the_rate_of_the_type_and_not_far(tmp_path, kind, rounded, plain):
    """On the device that was measured, and by the roofline on one without TF32 units."""
    device = load_machine("dgx-h200").device(0)
    seconds = {}
    for name, setting in (("tf32", rounded), ("fp32", plain)):
        folder = tmp_path / name
        folder.mkdir()
        trace = captured(folder, setting, kind)
        rows = products(trace)
        costs = work_model("h200").costs(trace, device)
        flops = trace.column("num_ops", 0)[rows].sum()
        seconds[name] = costs.ps[rows].sum() * 1e-12
        assert 0.3 * device.peak_rate(name) < flops / seconds[name] < device.peak_rate(name)
        if kind is CONVOLUTION and name == "fp32":
            assert set(costs.source[rows].tolist()) == {CostSource.EXTRAPOLATED}
    assert seconds["fp32"] > 3 * seconds["tf32"]
    assert find_profile("h200").peak["tf32"] > 7 * find_profile("h200").peak["fp32"]
