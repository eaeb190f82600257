"""What profiling the operators of many models takes on a real GPU: the truth behind the study A40.

    python benchmarks/study_profiling.py --list operators.json        where chakrakit is: what to profile
    python benchmarks/study_profiling.py --run operators.json \\
        -o src/chakrakit/published/methodology/h200_profiling.json    on the GPU: needs PyTorch alone

Every operator is profiled as a profiler would, at three sizes of requests with 30 runs each; its wall-clock
time, allocation and warm-up included, is the median of three passes over all of them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

TOKENS, REPEATS, WARM, PASSES = (16, 256, 2048), 30, 3, 3
LISTED = 256
"""Tokens of the request whose operators are listed."""


def listed(path: Path) -> None:
    """The operators of every model of the study's pools and every degree: kind and sizes, each once."""
    from chakrakit.published.methodology.a40_dooly import POOLS, operator_rows

    models = sorted({m for pool in POOLS.values() for m in pool})
    rows = [row for model in models for tp in (1, 2, 4, 8) for row in operator_rows(model, tp)]
    once = [list(row) for row in dict.fromkeys(rows)]
    path.write_text(json.dumps(once))
    print(f"{len(once)} distinct operators of {len(rows)}")


def call_of(kind: str, fixed: str, tokens: int):
    """The operator, with its operands."""
    import torch

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    if kind == "matmul":
        first, second = json.loads(fixed)[:2]
        a, b = random(*first[:-2], tokens, first[-1]), random(*second)
        return lambda: a @ b
    if kind == "attention":
        q, k, v = (random(s[0], s[1], tokens, s[3]) for s in json.loads(fixed))
        attention = torch.nn.functional.scaled_dot_product_attention
        return lambda: attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
    moved = int(fixed.split()[1]) * tokens // LISTED
    if kind == "lookup":
        table = random(32000, 1024)
        rows = torch.randint(0, 32000, (max(1, moved // 4096),), device="cuda")
        return lambda: table[rows]
    x = random(max(1, moved // 6))  # two operands and a result of two bytes
    return lambda: x + x


def profiled(kind: str, fixed: str) -> float:
    """Wall-clock seconds of profiling one operator."""
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    for tokens in TOKENS:
        call = call_of(kind, fixed, tokens)
        for _ in range(WARM):
            call()
        for _ in range(REPEATS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
        del call
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=Path, help="write the operators")
    parser.add_argument("--run", type=Path, help="profile the operators of this file")
    parser.add_argument("-o", "--output", type=Path, default=Path("h200_profiling.json"))
    given = parser.parse_args()
    if given.list:
        listed(given.list)
    if given.run:
        import torch

        operators = json.loads(given.run.read_text())
        passes = [[profiled(*operator) for operator in operators] for _ in range(PASSES)]
        seconds: dict[str, dict[str, float]] = {}
        for (kind, fixed), *times in zip(operators, *passes, strict=True):
            seconds.setdefault(kind, {})[fixed] = float(f"{sorted(times)[PASSES // 2]:.3g}")
        about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        given.output.write_text(json.dumps({**about, "seconds": seconds}, indent=0))


if __name__ == "__main__":
    main()
