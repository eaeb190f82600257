"""One level of Strassen's algorithm on a real GPU, against the library: the truth behind the study A57.

    python benchmarks/study_strassen.py [-o FILE.json]

Needs PyTorch and a GPU alone. Every shape is timed in bf16, fp16 and fp32 (with and without TF32): the
library's product, seven products of half the size, and all of one level, each as a captured graph.
"""

from __future__ import annotations

import argparse
import json
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
RUNS = 20


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


def seconds(call) -> float:
    """The median of several runs, with the launches of each captured in a graph."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[len(times) // 2]


def rows():
    kinds = [("bf16", torch.bfloat16, False), ("fp16", torch.float16, False)]
    kinds += [("tf32", torch.float32, True), ("fp32", torch.float32, False)]
    for kind, dtype, tf32 in kinds:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for name, (m, k, n) in SHAPES.items():
            a = torch.randn(m, k, device="cuda", dtype=dtype)
            b = torch.randn(k, n, device="cuda", dtype=dtype)
            library = seconds(lambda a=a, b=b: a @ b)
            level = seconds(lambda a=a, b=b: strassen(a, b))
            seven = seconds(lambda a=a, b=b: products(a, b))
            exact = (a.double() @ b.double()).float() if m * n * k < 1e12 else None
            off = None if exact is None else float((strassen(a, b).float() - exact).abs().max())
            row = {"dtype": kind, "shape": name, "m": m, "k": k, "n": n, "library_s": library}
            yield {
                **row,
                "strassen_s": level,
                "products_s": seven,
                "gain": library / level,
                "off": off,
            }
            print(
                f"{kind} {name}: library {library * 1e3:.3f} ms, gain {library / level:.3f}",
                flush=True,
            )
            del a, b, exact
            torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("strassen.json"))
    given = parser.parse_args()
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": list(rows()),
    }
    given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
