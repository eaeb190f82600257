"""Flight recorder dumps of many ranks: link and analyze, and whether planted faults are named.

    python benchmarks/flight_recorder.py [RANKS] [CALLS]     speed, by default 512 × 2,000, pickled
    python benchmarks/flight_recorder.py --faults [RANKS]    40 faults, 40 clean jobs, of 64 ranks

The dumps are written here, by the generator that the tests use; they are not recordings. Times are CPU
seconds of the commands, user and system.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from chakrakit.insight.diagnosis import board_of, hang_culprits
from chakrakit.sources import link
from support.recorders import Fault, differ, hang, reorder, slow, swap, write_dumps

CALLS = 45


def main() -> None:
    """Speed or faults, as the command line says."""
    numbers = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
    if "--faults" in sys.argv:
        faults(numbers[0] if numbers else 64)
    else:
        speed(*(numbers or [512, 2000]))


def speed(ranks: int, calls: int = 2000) -> None:
    """CPU seconds of `chakra link` and `chakra analyze`."""
    with tempfile.TemporaryDirectory() as folder:
        dumps = write_dumps(Path(folder) / "dumps", ranks, calls, pickled=True)
        run = Path(folder) / "run"
        linked = _cpu_seconds("link", str(dumps), "-o", str(run))
        analyzed = _cpu_seconds("analyze", str(run))
    print(f"{ranks} ranks × {calls} calls: link {linked:.1f} s, analyze {analyzed:.1f} s")


def _cpu_seconds(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [Path(sys.executable).with_name("chakra"), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def faults(ranks: int) -> None:
    """How many of 40 planted faults are named, alone and on the right rank; and false alarms."""
    named, alarms = 0, 0
    for seed in range(40):
        kind, rank, fault = _planted(seed, ranks)
        found = _culprits(ranks, seed, fault)
        named += found == [rank]
        alarms += bool(_culprits(ranks, 1000 + seed, None))
        if found != [rank]:
            print(f"seed {seed}, {kind} of rank {rank}: named {found[:4]}")
    print(f"{named} of 40 faults named, {alarms} false alarms in 40 clean jobs")


def _planted(seed: int, ranks: int) -> tuple[str, int, Fault]:
    chance = random.Random(seed * 31 + 7)
    rank, at = chance.randrange(ranks), chance.randrange(10, CALLS - 10)
    planted = (
        ("a missing call", hang(rank, at)),
        ("death", hang(rank, at, dead=True)),
        ("order", swap(rank, at, at + 3)),
        ("order of groups", reorder(rank, at - at % 3)),
        ("size", differ(rank, at, input_sizes=[[77]], output_sizes=[[77]])),
        ("element type", differ(rank, at, input_dtypes=["Half"])),
        ("kind", differ(rank, at, profiling_name="nccl:broadcast")),
        ("slowness", slow(rank, 0, 300_000)),
        ("slowness from the middle on", slow(rank, CALLS // 2, 400_000)),
    )
    kind, fault = planted[seed % len(planted)]
    return kind, rank, fault


def _culprits(ranks: int, seed: int, fault: Fault | None) -> list[int | None]:
    with tempfile.TemporaryDirectory() as folder:
        run, _ = link([write_dumps(Path(folder), ranks, CALLS, seed, fault)])
        return [culprit.rank for culprit in hang_culprits(board_of(run))]


if __name__ == "__main__":
    main()
