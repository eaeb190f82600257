"""Time and power of decode steps of Llama on one GPU, by batch and locked clock.

python benchmarks/decode_power.py OUT.jsonl [SECONDS [plain]]

Its rows are `kept` and `kept again` in published/devices/decode_power.py, and with `plain`, where PyTorch's
operators rotate, store and activate one by one, `plain again`. Each model has a context
of 2,048 tokens and random weights in bf16. A layer has two norms, four products (queries, keys and values;
output; gate and up; down), attention by grouped queries, the activation and two sums, a kernel each, and
three kernels that rotate and store the new token; `torch.compile` makes these and the activation. Steps run
back to back for SECONDS (1.3), launched one by one (`eager`) or as one CUDA graph. Watts are the slope of
NVML's energy counter, which a process of its own reads. Locks clocks with nvidia-smi, which may need
rights.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

CONTEXT, VOCABULARY, KEYS = 2048, 128256, 8
CLOCKS = (0, 1410, 1005)
"""MHz; 0 for no lock."""
SAMPLE = ("seconds", "joules", "MHz")
"""A line of the sampler."""
SETTLES = 0.25
"""Seconds of steps before a measurement, and after a change of the clock."""


class Shape(NamedTuple):
    """What differs between the models."""

    layers: int
    hidden: int
    inner: int
    heads: int
    tied: bool

    @property
    def size(self) -> int:
        """Of a head."""
        return self.hidden // self.heads


SHAPES = {"8b": Shape(32, 4096, 14336, 32, tied=False), "1b": Shape(16, 2048, 8192, 32, tied=True)}


def rotate_and_store(
    qkv: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, heads: int
) -> Tensor:
    """The rotated queries; the new token's rotated keys, and its values, take the last place of the cache."""
    batch, size = len(qkv), keys.shape[-1]
    each = qkv.view(batch, heads + 2 * KEYS, size)
    turned, half = each[:, : heads + KEYS], size // 2
    left, right = turned[..., :half].float(), turned[..., half:].float()
    turned = torch.cat((left * cos - right * sin, right * cos + left * sin), -1).to(qkv.dtype)
    keys[:, :, -1] = turned[:, heads:]
    values[:, :, -1] = each[:, heads + KEYS :]
    return turned[:, :heads].unsqueeze(2)


def rotate_and_store_plainly(
    qkv: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, heads: int
) -> Tensor:
    """The same by twelve operators, with the tables in bf16 and for both halves."""

    def turned(x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    each = qkv.view(len(qkv), heads + 2 * KEYS, keys.shape[-1])
    q, k, v = each.split((heads, KEYS, KEYS), 1)
    q, k = turned(q), turned(k)
    keys[:, :, -1] = k
    values[:, :, -1] = v
    return q.unsqueeze(2)


def activated(gate_up: Tensor) -> Tensor:
    """SiLU of the gate, times up."""
    gate, up = gate_up.chunk(2, -1)
    return functional.silu(gate) * up


class Model:
    """Weights, and a cache of the largest batch that was asked for."""

    def __init__(self, shape: Shape, device: str, largest: int, plain: bool = False) -> None:
        def weights(*sizes: int) -> Tensor:
            return torch.empty(sizes, dtype=torch.bfloat16, device=device).normal_(0, 0.02)

        s = self.shape = shape
        self.embedding = weights(VOCABULARY, s.hidden)
        self.head = self.embedding if s.tied else weights(VOCABULARY, s.hidden)
        self.norm = torch.ones(s.hidden, dtype=torch.bfloat16, device=device)
        self.layers = [
            (
                weights((s.heads + 2 * KEYS) * s.size, s.hidden),
                weights(s.hidden, s.hidden),
                weights(2 * s.inner, s.hidden),
                weights(s.hidden, s.inner),
            )
            for _ in range(s.layers)
        ]
        self.caches = [weights(2, largest, KEYS, CONTEXT, s.size) for _ in range(s.layers)]
        angle = torch.arange(s.size // 2, device=device) / s.size
        self.cos, self.sin = angle.cos(), angle.sin()
        if plain:
            self.cos, self.sin = (torch.cat((t, t)).bfloat16() for t in (self.cos, self.sin))
            self.rotate, self.activate = rotate_and_store_plainly, activated
        else:
            self.rotate = torch.compile(rotate_and_store, dynamic=False)
            self.activate = torch.compile(activated, dynamic=False)

    def step(self, tokens: Tensor) -> Tensor:
        """Logits of one more token of each sequence."""
        x = functional.embedding(tokens, self.embedding)
        for weights, cache in zip(self.layers, self.caches, strict=True):
            x = self.layer(x, weights, cache[:, : len(tokens)])
        return functional.linear(self.normed(x), self.head)

    def layer(self, x: Tensor, weights: tuple[Tensor, ...], cache: Tensor) -> Tensor:
        """One layer."""
        qkv, out, gate_up, down = weights
        keys, values = cache
        mixed = functional.linear(self.normed(x), qkv)
        queries = self.rotate(mixed, self.cos, self.sin, keys, values, self.shape.heads)
        seen = functional.scaled_dot_product_attention(queries, keys, values, enable_gqa=True)
        x = x + functional.linear(seen.reshape(x.shape), out)
        return x + functional.linear(
            self.activate(functional.linear(self.normed(x), gate_up)), down
        )

    def normed(self, x: Tensor) -> Tensor:
        """Root-mean-square normalisation."""
        return functional.rms_norm(x, (self.shape.hidden,), self.norm)


def graph_of(model: Model, tokens: Tensor) -> Callable[[], object]:
    """Replays a step that was captured after some that were not."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model.step(tokens)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step(tokens)
    return graph.replay


def sample(path: Path) -> None:
    """Writes a line whenever the energy counter moves, until it is ended."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device, joules, mhz = ctypes.c_void_p(), ctypes.c_ulonglong(), ctypes.c_uint()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    last = 0
    with path.open("w", buffering=1) as out:
        while True:
            status = nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(joules))
            if status:
                raise RuntimeError(f"NVML cannot read the energy counter: error {status}")
            if joules.value != last:
                last = joules.value
                nvml.nvmlDeviceGetClockInfo(device, 1, ctypes.byref(mhz))
                out.write(f"{time.monotonic()} {last / 1e3} {mhz.value}\n")
            time.sleep(0.002)


def lock(mhz: int) -> None:
    """Locks the clock of the multiprocessors, or frees it (0)."""
    asked = ["-lgc", f"{mhz},{mhz}"] if mhz else ["-rgc"]
    subprocess.run(["nvidia-smi", "-i", "0", *asked], check=True, stdout=subprocess.DEVNULL)


def repeat(step: Callable[[], object], seconds: float) -> tuple[int, float, float]:
    """Steps back to back for at least these seconds: how many, begin and end."""
    count = 4
    while True:
        torch.cuda.synchronize()
        begun = time.monotonic()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        ended = time.monotonic()
        if ended - begun >= seconds:
            return count, begun, ended
        count = int(count * max(1.5, 1.05 * seconds / (ended - begun)))


def measured(step: Callable[[], object], samples: Path, seconds: float) -> dict[str, float]:
    """Milliseconds and watts of a step, and the median clock."""
    repeat(step, SETTLES)
    count, begun, ended = repeat(step, seconds)
    rows = [[float(v) for v in line.split()] for line in samples.read_text().splitlines()]
    inside = [r for r in rows if len(r) == len(SAMPLE) and begun + 0.1 < r[0] < ended]
    (first, low, _), *_, (last, high, _) = inside
    clocks = sorted(r[2] for r in inside)
    return {
        "step_ms": (ended - begun) / count * 1e3,
        "watts": (high - low) / (last - first),
        "median_mhz": clocks[len(clocks) // 2],
        "ticks": len(inside),
    }


def kernels(step: Callable[[], object]) -> dict[str, list[float]]:
    """Count and mean microseconds of the kernels of a step, by name."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    found: dict[str, list[float]] = {}
    for event in profile.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            row = found.setdefault(event.name[:90], [0, 0.0])
            row[0] += 1
            row[1] += event.time_range.elapsed_us()
    return {name: [count, round(total / count, 2)] for name, (count, total) in found.items()}


def settings(model: str) -> list[tuple[int, tuple[int, ...]]]:
    """Batches and clocks; those of 1 and 64 are a control, at a free clock."""
    control = ((1, (0,)), (64, (0,))) if model == "8b" else ((1, (0,)),)
    return [*control, (16, CLOCKS), (256, CLOCKS)]


def measure_batch(
    model: Model, batch: int, clocks: tuple[int, ...], samples: Path, seconds: float
) -> Iterator[dict[str, Any]]:
    """The kernels of a step, then each clock and way to launch."""
    tokens = torch.arange(batch, device="cuda")
    ways = {"graph": graph_of(model, tokens), "eager": partial(model.step, tokens)}
    yield {"kernels": kernels(ways["eager"])}
    for mhz in clocks:
        lock(mhz)
        for how, step in ways.items():
            yield {"how": how, "locked_mhz": mhz, **measured(step, samples, seconds)}
    lock(0)


def main(out: Path, seconds: float = 1.3, plain: bool = False) -> None:
    """Measures all settings; a line is written as soon as it is known."""
    with tempfile.TemporaryDirectory() as folder, out.open("w", buffering=1) as lines:
        samples = Path(folder, "samples")
        sampler = subprocess.Popen([sys.executable, __file__, "--sample", str(samples)])
        try:
            for name, shape in SHAPES.items():
                model = Model(shape, "cuda", max(batch for batch, _ in settings(name)), plain)
                for batch, clocks in settings(name):
                    for row in measure_batch(model, batch, clocks, samples, seconds):
                        lines.write(json.dumps({"model": name, "batch": batch, **row}) + "\n")
                del model
                torch.cuda.empty_cache()
        finally:
            sampler.terminate()
            lock(0)


if __name__ == "__main__":
    with torch.inference_mode():
        if sys.argv[1] == "--sample":
            sample(Path(sys.argv[2]))
        else:
            main(Path(sys.argv[1]), *map(float, sys.argv[2:3]), plain="plain" in sys.argv[3:])
