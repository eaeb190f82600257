"""ASTRA-sim mode: recorded answers matched, and CPU seconds beside ASTRA-sim's own.

    python benchmarks/astra.py [--golden golden.jsonl.gz] [--no-fold] [--only NAME]

The recorded answers are read from --golden or CHAKRA_ASTRA_GOLDEN; without either, those of the tests.
The speed table runs the `chakra simulate` command in a process of its own, start-up included, on files
made here: 1 MB all-reduces with 4 splits, 1 active chunk, 50 GB/s, 500 ns, endpoint delay 10 ns and
memory 1600 GB/s; a chain of 100,000 nodes (nine of 5 µs, then a 64 KiB all-reduce) on 64 ranks; and
16,000 independent nodes on 2 ranks. ASTRA-sim's CPU seconds are of its revision 518bd51, one run each,
measured elsewhere; the last of them was stopped after 900 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import astra_workloads as make  # noqa: E402
from chakrakit.errors import ChakraError  # noqa: E402
from support import astra_cases  # noqa: E402

TEST_DATA = HERE.parent / "tests" / "data" / "astra" / "golden.jsonl.gz"


@dataclass(frozen=True)
class Speed:
    """One row: what is run, the cycles it must give, ASTRA-sim's CPU seconds, and our bounds."""

    name: str
    topology: list[str]
    sizes: list[int]
    algorithm: str
    cycles: int
    theirs: float
    seconds: float
    megabytes: int
    workload: Callable[[Path, int], str] = make.one_collective

    @property
    def ranks(self) -> int:
        total = 1
        for size in self.sizes:
            total *= size
        return total


def chain(folder: Path, ranks: int) -> str:
    return make.chain(folder, ranks, 100_000)


def wide(folder: Path, ranks: int) -> str:
    return make.wide(folder, ranks, 16_000)


HD = "halvingDoubling"
TORUS = ["Ring", "Ring", "Ring"]
ROWS = [
    Speed("Switch 4096, halvingDoubling", ["Switch"], [4096], HD, 136_952, 19.4, 0.5, 300),
    Speed("Ring 4096, ring", ["Ring"], [4096], "ring", 16_740_400, 630, 2, 1000),
    Speed("Switch 512, direct", ["Switch"], [512], "direct", 8_192, 30, 0.5, 1000),
    Speed("Torus 32x32x16, ring", TORUS, [32, 32, 16], "ring", 178_722, 92, 1, 1000),
    Speed("64 x 100,000 chain", ["Switch"], [64], HD, 959_400_000, 257, 9, 1000, chain),
    Speed("2 x 16,000 ready", ["Switch"], [2], "ring", 80_000_000, 900, 0.5, 1000, wide),
]


def check_recorded(path: Path) -> bool:
    """Every recorded run, folded and not; prints matches per class."""
    right, seen, errors, failed = Counter[str](), Counter[str](), 0, []
    for case, result in astra_cases.read_cases(path):
        if case["system"].get("model-shared-bus"):
            continue
        kind = case["name"][0]
        try:
            answers = [astra_cases.figures(astra_cases.run(case, fold=f)) for f in (True, False)]
        except ChakraError as error:
            if "cycles" in result:
                failed.append(f"{case['name']}: {error}")
            else:
                errors += 1
            continue
        seen[kind] += 1
        if all(answer == (result.get("cycles"), result.get("exposed")) for answer in answers):
            right[kind] += 1
        else:
            failed.append(case["name"])
    matches = ", ".join(f"{kind} {right[kind]}/{seen[kind]}" for kind in sorted(seen))
    print(f"recorded runs matched, folded and not: {matches}; {errors} without figures refused")
    for name in failed:
        print("  not matched:", name)
    return not failed


def measure(row: Speed, folder: Path, extra: list[str]) -> bool:
    workload = row.workload(folder, row.ranks)
    files = make.configuration(folder, row.topology, row.sizes, row.algorithm)
    script = "from chakrakit.commands import main; main()"
    command = [sys.executable, "-c", script, "simulate", workload, "--astra", *files]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([*command, "--json", *extra], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        out.seek(0)
        answer = json.load(out) if status == 0 else {"max_cycles": -1, "classes": 0}
    cpu = usage.ru_utime + usage.ru_stime
    megabytes = usage.ru_maxrss / 1024 if sys.platform == "linux" else usage.ru_maxrss / 2**20
    good = answer["max_cycles"] == row.cycles
    within = cpu <= row.seconds and megabytes <= row.megabytes
    print(
        f"{row.name:30} {answer['max_cycles']:>12,} {'' if good else 'WRONG '}"
        f"{cpu:7.2f} s CPU {wall:7.2f} s wall {megabytes:6.0f} MB {answer['classes']:>6} classes "
        f"{row.theirs / cpu:8.0f}x{'' if within else '  over its bound'}"
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description="ASTRA-sim mode: answers and speed.")
    parser.add_argument("--golden", default=os.environ.get("CHAKRA_ASTRA_GOLDEN", str(TEST_DATA)))
    parser.add_argument("--no-fold", action="store_true", help="simulate every rank")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    given = parser.parse_args()
    good = check_recorded(Path(given.golden)) if not given.only else True
    extra = ["--no-fold"] if given.no_fold else []
    print(f"{'case':30} {'cycles':>12}   (ratio: ASTRA-sim's CPU seconds over ours)")
    for row in ROWS:
        if given.only in row.name:
            with tempfile.TemporaryDirectory() as folder:
                good &= measure(row, Path(folder), extra)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
