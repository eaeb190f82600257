"""Record a small model on a GPU in two passes, then slow it down and measure what that costs.

Needs PyTorch and nothing else: copy this file and `collector.py` side by side.

    python counterfactual.py OUT            # or: torchrun --nproc_per_node 1 counterfactual.py OUT

OUT gets the recordings (link them with `chakra link OUT/raw --times OUT/raw/times_0.json.gz …`) and
`measured.json`: the un-profiled step, and the step with the device or the host spinning after every
Linear of the forward pass. A true trace, edited the same way, predicts these.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

LAYERS, WIDTH, BATCH, STEPS = (int(x) for x in os.environ.get("SIZES", "24 2048 4096 20").split())
EDITS_US = (0, 50, 200, 800)


def load_collector():
    """The stand-alone collector: beside this file, or in chakrakit's sources."""
    here = Path(__file__).resolve()
    for path in (
        here.with_name("collector.py"),
        here.parents[2] / "src/chakrakit/sources/pytorch/collector.py",
    ):
        if path.exists():
            spec = importlib.util.spec_from_file_location("chakra_collector", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SystemExit("collector.py is not here; copy it beside this file")


class Spin:
    """Spins the stream or the host after every Linear's forward."""

    def __init__(self, model: nn.Module) -> None:
        self.gpu_us = self.host_us = 0
        self.count = 0
        clock = (
            torch.cuda.get_device_properties(0).clock_rate
            if hasattr(torch.cuda.get_device_properties(0), "clock_rate")
            else 1_980_000
        )
        self.cycles_per_us = clock / 1000
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(self)
                self.count += 1

    def __call__(self, *_: object) -> None:
        if self.gpu_us:
            torch.cuda._sleep(int(self.gpu_us * self.cycles_per_us))
        if self.host_us:
            until = time.perf_counter_ns() + self.host_us * 1000
            while time.perf_counter_ns() < until:
                pass


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    batch = torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    loss = model(batch).float().square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def back_to_back_ms(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    for _ in range(3):
        step(model, optimizer)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step(model, optimizer)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / STEPS * 1000


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    distributed = "RANK" in os.environ
    layers = [m for _ in range(LAYERS) for m in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    model: nn.Module = nn.Sequential(*layers).cuda().bfloat16()
    if distributed:
        torch.distributed.init_process_group("nccl")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    spin = Spin(model)
    # Before anything is profiled: CUPTI stays loaded afterwards and slows every launch.
    plain = back_to_back_ms(model, optimizer)
    edits = []
    for gpu_us, host_us in [(e, 0) for e in EDITS_US] + [(0, e) for e in EDITS_US[1:]]:
        spin.gpu_us, spin.host_us = gpu_us, host_us
        edits.append(
            {
                "gpu_us": gpu_us,
                "host_us": host_us,
                "count": spin.count,
                "step_ms_back_to_back": back_to_back_ms(model, optimizer),
            }
        )
    spin.gpu_us = spin.host_us = 0
    collector = load_collector()
    with collector.Collector(out / "raw", (14, 16), two_pass=True) as c:
        for _ in range(18):
            step(model, optimizer)
            c.step()
    measured = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "base_ms": plain,
        "edits": edits,
    }
    (out / "measured.json").write_text(json.dumps(measured, indent=1))
    print(json.dumps(measured, indent=1))
    if distributed:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
