"""Copies between host and device are the link's, and what lies on the host is no memory of the device."""

from __future__ import annotations

import pytest

from chakrakit import read
from chakrakit.machines import load_machine
from chakrakit.machines.device import work_model
from chakrakit.sources.capture import capture_command

MIB = 1 << 20
PROGRAM = """
import torch
from torch import nn
m = nn.Linear(256, 256, bias=False).cuda()
opt = torch.optim.SGD(m.parameters(), lr=.1)
kept = torch.empty(1 << 20)
for _ in range(2):
    {work}
    m(torch.randn(8, 256, device="cuda")).sum().backward()
    opt.step()
    opt.zero_grad()
"""
HTOD, DTOH = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
PINNED_HTOD, PINNED_DTOH = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"


def captured(folder, work: str):
    script = folder / "train.py"
    script.write_text(PROGRAM.format(work=work))
    report = capture_command(["python", str(script)], folder / "out", ranks=1, device="h100")
    return report, read(folder / "out")[0]


def copies(trace) -> list[tuple[str, int]]:
    codes, names = trace.texts("name")
    sizes = trace.column("tensor_size", 0)
    rows = [r for r in range(len(trace)) if names[codes[r]].startswith("Memcpy")]
    assert not trace.on_host[rows].any()
    return [(names[codes[r]], int(sizes[r])) for r in rows]


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("x = torch.empty(1 << 20).cuda()", [(HTOD, 4 * MIB)]),
        ("x = torch.empty(1 << 20).to('cuda', torch.bfloat16)", [(HTOD, 2 * MIB)]),
        ("x = torch.empty(1 << 20).pin_memory().to('cuda')", [(PINNED_HTOD, 4 * MIB)]),
        ("x = torch.empty(1 << 20, pin_memory=True).to('cuda')", [(PINNED_HTOD, 4 * MIB)]),
        ("x = torch.empty(1 << 20, device='cuda').cpu()", [(DTOH, 4 * MIB)]),
        ("x = torch.empty(1 << 20, device='cuda'); kept.copy_(x)", [(DTOH, 4 * MIB)]),
        ("x = torch.empty(1 << 20, device='cuda'); x.copy_(kept)", [(HTOD, 4 * MIB)]),
        ("x = torch.empty(1 << 20, device='cuda'); x = x.to('cuda').bfloat16()", []),
        (
            "x = next(iter(torch.utils.data.DataLoader(kept.new_zeros(8, 1024), 8, pin_memory=True)))"
            ".cuda()",
            [(PINNED_HTOD, 32 << 10)],
        ),
    ],
)
def test_a_copy_says_its_way_its_memory_and_its_bytes(tmp_path, work, expected):
    assert copies(captured(tmp_path, work)[1]) == expected


def test_copies_take_the_time_of_the_link(tmp_path):
    work = "x = torch.empty(1 << 28, pin_memory=True).cuda()"
    trace = captured(tmp_path, work)[1]
    for name in ("h200", "roofline", "auto"):
        costs = work_model(name).costs(trace, load_machine("dgx-h200").device(0))
        codes, names = trace.texts("name")
        row = next(r for r in range(len(trace)) if names[codes[r]] == PINNED_HTOD)
        assert 4 * 2**28 / (costs.ps[row] * 1e-12) == pytest.approx(55e9, rel=0.02)


def test_what_is_kept_on_the_host_is_no_memory_of_the_device(tmp_path):
    work = "x = [torch.empty(1 << 20, device='cuda').cpu() for _ in range(64)]; y = torch.zeros(1 << 26)"
    report, _ = captured(tmp_path, work)
    assert report.kinds[0].peak_bytes < 96 * MIB
    assert any("take no time" in w and "aten::zeros" in w for w in report.warnings)


@pytest.mark.parametrize(
    ("pinned", "names"), [(True, {PINNED_HTOD, PINNED_DTOH}), (False, {HTOD, DTOH})]
)
def test_activations_saved_on_the_host_go_there_and_back(tmp_path, pinned, names):
    body = (
        "w = [torch.randn(1024, 1024, device='cuda', requires_grad=True) for _ in range(8)]\n"
        "    x = torch.randn(8192, 1024, device='cuda')\n"
        "    with {}:\n        for p in w: x = x @ p\n"
        "    x.sum().backward()"
    )
    peaks = []
    for context in (
        "__import__('contextlib').nullcontext()",
        f"torch.autograd.graph.save_on_cpu({pinned})",
    ):
        folder = tmp_path / str(len(peaks))
        folder.mkdir()
        report, trace = captured(folder, body.format(context))
        peaks.append(report.kinds[0].peak_bytes)
    found = [name for name, _ in copies(trace)]
    assert set(found) == names
    assert len(found) % 2 == 0
    assert peaks[1] < 0.65 * peaks[0]


def test_offloading_that_is_not_modelled_is_named(tmp_path):
    report, _ = captured(tmp_path, "torch.distributed.fsdp.CPUOffloadPolicy()")
    assert any("CPUOffloadPolicy is not modelled" in w for w in report.warnings)
    report, _ = captured(tmp_path, "torch.distributed.fsdp.CPUOffload(offload_params=True)")
    assert any("CPUOffload is not modelled" in w for w in report.warnings)
