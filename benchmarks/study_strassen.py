"""One level of Strassen's algorithm on a real GPU, against the library: the truth behind the study A57.

    python benchmarks/study_strassen.py -o src/chakrakit/published/devices/h200_products.json

Needs PyTorch and a GPU alone. Every shape is timed in bf16, fp16 and fp32 (with and without TF32): the
library's product in one, two and four pieces, seven products of half the size, and all of one level, each as
a captured graph. All ways are timed in turns, in seven rounds, after the clocks have settled.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

SHAPES = {
    "decode": (16, 8192, 28672),
    "prefill 512": (512, 8192, 28672),
    "prefill 8192": (8192, 8192, 28672),
    "2048": (2048, 2048, 2048),
    "4096": (4096, 4096, 4096),
    "8192": (8192, 8192, 8192),
    "16384": (16384, 16384, 16384),
}
KINDS = {
    "bf16": (torch.bfloat16, False),
    "fp16": (torch.float16, False),
    "tf32": (torch.float32, True),
    "fp32": (torch.float32, False),
}
ROUNDS = 7
"""One for each seed of the study: five that judge, two that tune."""
SETTLED_S = 0.7
"""Seconds of work after which an H200's clocks no longer fall."""


def library(a, b, pieces):
    """The library's product, by columns in so many pieces."""
    return [a @ part for part in b.chunk(pieces, dim=1)]


def strassen(a, b):
    """Strassen's first form: seven products and eighteen sums of quarters."""
    m, k, n = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
    a11, a12, a21, a22 = a[:m, :k], a[:m, k:], a[m:, :k], a[m:, k:]
    b11, b12, b21, b22 = b[:k, :n], b[:k, n:], b[k:, :n], b[k:, n:]
    p1 = (a11 + a22) @ (b11 + b22)
    p2 = (a21 + a22) @ b11
    p3 = a11 @ (b12 - b22)
    p4 = a22 @ (b21 - b11)
    p5 = (a11 + a12) @ b22
    p6 = (a21 - a11) @ (b11 + b12)
    p7 = (a12 - a22) @ (b21 + b22)
    c = torch.empty(2 * m, 2 * n, dtype=a.dtype, device=a.device)
    torch.add(p1 + p4, p7 - p5, out=c[:m, :n])
    torch.add(p3, p5, out=c[:m, n:])
    torch.add(p2, p4, out=c[m:, :n])
    torch.add(p1 - p2, p3 + p6, out=c[m:, n:])
    return c


def products(a, b):
    """The seven products alone."""
    m, k, n = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
    x, y = a[:m, :k].contiguous(), b[:k, :n].contiguous()
    for _ in range(7):
        c = x @ y
    return c


def captured(call):
    """A graph of the call's launches."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def median_seconds(graph, runs: int) -> float:
    times = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[len(times) // 2]


def in_turns(calls, runs: int) -> dict[str, list[float]]:
    """Seconds of all ways, round by round; each round starts with another way."""
    graphs = {name: captured(call) for name, call in calls.items()}
    until = time.monotonic() + SETTLED_S
    while time.monotonic() < until:
        for graph in graphs.values():
            graph.replay()
        torch.cuda.synchronize()
    names, seconds = list(graphs), {name: [] for name in graphs}
    for number in range(ROUNDS):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(float(f"{median_seconds(graphs[name], runs):.4g}"))
    return seconds


def measured(shape: tuple[int, int, int], dtype) -> dict[str, list[float]]:
    m, k, n = shape
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn(k, n, device="cuda", dtype=dtype)
    calls = {
        "library": lambda: library(a, b, 1),
        "in 2 pieces": lambda: library(a, b, 2),
        "in 4 pieces": lambda: library(a, b, 4),
        "strassen": lambda: strassen(a, b),
        "seven products": lambda: products(a, b),
    }
    return in_turns(calls, 3 if m * k * n > 1e12 else 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("h200_products.json"))
    given = parser.parse_args()
    seconds = {}
    for kind, (dtype, tf32) in KINDS.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for name, shape in SHAPES.items():
            ways = seconds[f"{kind} {name}"] = measured(shape, dtype)
            print(f"{kind} {name}: gain {ways['library'][0] / ways['strassen'][0]:.3f}", flush=True)
            torch.cuda.empty_cache()
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    given.output.write_text(json.dumps({**about, "seconds": seconds}, indent=0))


if __name__ == "__main__":
    main()
