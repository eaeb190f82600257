"""What profiling the operators of many models takes on a real GPU: the truth behind the study A40.

    python benchmarks/study_profiling.py --list operators.json           where chakrakit is: what to profile
    python benchmarks/study_profiling.py --run operators.json -o OUT     on the GPU: needs PyTorch alone

Every operator is profiled as a profiler would, at three sizes of requests with 30 runs each, and its
wall-clock time, allocation and warm-up included, is written down with the models that use it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

REPEATS, TOKENS = 30, (16, 256, 2048)


def listed(path: Path) -> None:
    """Matrix products of every model of the study's pools and every degree, with who uses them."""
    from chakrakit.published.methodology.a40_dooly import POOLS
    from chakrakit.workloads.generate import generate
    from chakrakit.workloads.models import workload_of

    users: dict[str, list[str]] = {}
    for model in sorted({m for pool in POOLS.values() for m in pool}):
        for tp in (1, 2, 4, 8):
            fields = {"layers": 1, "tp": tp, "seq": 256, "global_batch": 1}
            trace = generate(workload_of(None, model, fields)).trace(0)
            table = trace.nodes.select(["op_type", "inputs_shapes", "phase"]).to_pylist()
            for row in table:
                if (
                    row["phase"] == "forward"
                    and row["op_type"] == "matmul"
                    and row["inputs_shapes"]
                ):
                    users.setdefault(row["inputs_shapes"], []).append(f"{model} tp{tp}")
    path.write_text(json.dumps(users, indent=1))
    print(f"{len(users)} distinct products of {sum(map(len, users.values()))}")


def profiled(path: Path, output: Path) -> None:
    """The wall-clock time of profiling each product."""
    import torch

    rows = []
    for shapes, users in json.loads(path.read_text()).items():
        (_, inner), (_, columns) = json.loads(shapes)[:2]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for tokens in TOKENS:
            a = torch.randn(tokens, inner, device="cuda", dtype=torch.bfloat16)
            b = torch.randn(inner, columns, device="cuda", dtype=torch.bfloat16)
            for _ in range(REPEATS):
                a @ b
            torch.cuda.synchronize()
            del a, b
        rows.append({"shapes": shapes, "users": users, "seconds": time.perf_counter() - began})
    alone = sum(r["seconds"] * len(r["users"]) for r in rows)
    shared = sum(r["seconds"] for r in rows)
    print(
        f"each model by itself {alone:.1f} s, one database {shared:.1f} s: {1 - shared / alone:.1%} less"
    )
    found = {
        "device": torch.cuda.get_device_name(),
        "alone_s": alone,
        "shared_s": shared,
        "rows": rows,
    }
    output.write_text(json.dumps(found, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=Path, help="write the operators")
    parser.add_argument("--run", type=Path, help="profile the operators of this file")
    parser.add_argument("-o", "--output", type=Path, default=Path("profiling.json"))
    given = parser.parse_args()
    if given.list:
        listed(given.list)
    if given.run:
        profiled(given.run, given.output)


if __name__ == "__main__":
    main()
