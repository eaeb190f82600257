"""CPU seconds of `chakra generate`, start-up and writing included, each case in a process of its own.

`python benchmarks/generate.py [NAME…]`. The STAGE cases are the configurations that STAGE 9ec6c02 was
measured with; its CPU seconds (2 shared cores, Python 3.11) are beside ours.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SMALL = "--layers {L} --hidden 1024 --heads 16 --ffn 4096 --vocab 32000 --seq 512 --global-batch 16"
GPT = "--model gpt3-350m --positions 0 --no-dropout --no-bias --kernel flash --no-tied " + SMALL
MOE = "--model mixtral-8x7b --kv-heads 4 --experts 8 --top-k 2 --expert-ffn 4096 " + SMALL
L8B = "--model llama3.1-8b --seq 512"

# name → options, STAGE's CPU seconds
CASES: dict[str, tuple[str, float | None]] = {
    "405b-16384": (
        "--model llama3.1-405b --tp 8 --pp 16 --dp 128 --seq 8192 --global-batch 2048",
        None,
    ),
    "d01": (GPT.format(L=4) + " --micro-batch 16", 3.74),
    "d02": (GPT.format(L=4) + " --tp 4 --micro-batch 16", 4.62),
    "d03": (GPT.format(L=4) + " --tp 4 --no-sequence-parallel --micro-batch 16", 4.61),
    "d04": (GPT.format(L=4) + " --dp 4 --micro-batch 4", 4.85),
    "d05": (GPT.format(L=4) + " --cp 4 --micro-batch 16", 4.63),
    "d06": (GPT.format(L=4) + " --dp 2 --tp 2 --pp 2 --micro-batch 8", 4.07),
    "d07": (GPT.format(L=4) + " --dp 4 --tp 2 --cp 2 --micro-batch 4", 3.92),
    "d08": (GPT.format(L=4) + " --dp 8 --tp 4 --pp 2 --micro-batch 2", 4.87),
    "f01": (GPT.format(L=4) + " --dp 4 --data fsdp --micro-batch 4", 3.59),
    "f02": (GPT.format(L=4) + " --dp 4 --data fsdp --micro-batch 1", 7.65),
    "f03": (GPT.format(L=4) + " --dp 4 --micro-batch 1", 9.20),
    "f04": (GPT.format(L=4) + " --dp 4 --tp 2 --data fsdp --micro-batch 4", 5.37),
    "f05": (GPT.format(L=4) + " --dp 4 --cp 2 --data fsdp --micro-batch 4", 4.90),
    "f06": (GPT.format(L=4) + " --dp 16 --shard 16 --data fsdp", 4.00),
    "p01": (GPT.format(L=4) + " --pp 4 --micro-batch 16", 3.52),
    "p02": (GPT.format(L=4) + " --pp 4 --micro-batch 4", 6.11),
    "p03": (GPT.format(L=4) + " --pp 4 --micro-batch 1", 16.31),
    "p04": (GPT.format(L=6) + " --pp 4 --micro-batch 16", 5.00),
    "m01": (MOE.format(L=4) + " --micro-batch 16", 10.08),
    "m02": (MOE.format(L=4) + " --dp 4 --ep 4 --micro-batch 4", 7.01),
    "m03": (MOE.format(L=4) + " --dp 8 --ep 8 --micro-batch 2", 6.22),
    "m04": (MOE.format(L=4) + " --dp 8 --ep 4 --micro-batch 2", 6.27),
    "m05": (MOE.format(L=4) + " --dp 4 --ep 4 --tp 2 --micro-batch 4", 7.08),
    "m06": (MOE.format(L=4) + " --dp 8 --ep 4 --tp 2 --pp 2 --micro-batch 2", 10.03),
    "m07": (MOE.format(L=4) + " --dp 16 --ep 4 --tp 2 --pp 2 --micro-batch 1", 14.86),
    "m08": (MOE.format(L=4) + " --dp 8 --ep 4 --data fsdp --micro-batch 2", 8.02),
    "s01": (GPT.format(L=8) + " --dp 2 --tp 2 --pp 2 --micro-batch 8", 8.66),
    "s02": (GPT.format(L=16) + " --dp 2 --tp 2 --pp 2 --micro-batch 8", 14.45),
    "s03": (GPT.format(L=32) + " --dp 2 --tp 2 --pp 2 --micro-batch 8", 25.82),
    "s04": (GPT.format(L=32) + " --dp 2 --tp 2 --pp 2 --micro-batch 2", 81.14),
    "s06": (GPT.format(L=4) + " --dp 32 --tp 4 --pp 2 --global-batch 32", 6.08),
    "s07": (GPT.format(L=4) + " --dp 128 --tp 4 --pp 2 --global-batch 128", 12.90),
    "s09": (
        "--model llama2-70b --kv-heads 64 --dp 4 --tp 4 --pp 4 --seq 2048 --global-batch 64 "
        "--micro-batch 16",
        68.43,
    ),
    "c01": (L8B + " --dp 4 --data fsdp --global-batch 16 --micro-batch 4", 24.83),
    "c02": (L8B + " --tp 4 --global-batch 4 --micro-batch 4", 26.78),
}


def run(options: str, per_rank: bool) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak MB of one command."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / ("w.N.et" if per_rank else "out"))
        command = [
            str(Path(sys.executable).parent / "chakra"),
            "generate",
            *options.split(),
            "-o",
            out,
        ]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, after.ru_maxrss / 1024


def main(names: list[str]) -> None:
    """One line per case: written folded, and as STAGE writes, one file per rank (not the largest)."""
    print(f"{'case':<12}{'folded s':>9}{'MB':>6}{'file per rank s':>17}{'STAGE s':>9}{'times':>7}")
    for name in names or CASES:
        options, stage = CASES[name]
        folded, _, memory = min(run(options, False) for _ in range(3))
        line = f"{name:<12}{folded:>9.3f}{memory:>6.0f}"
        if stage:
            apart, _, _ = min(run(options, True) for _ in range(3))
            line += f"{apart:>17.3f}{stage:>9.2f}{stage / apart:>7.1f}"
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
