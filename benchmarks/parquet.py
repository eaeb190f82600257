"""Reading our own Parquet beside `pyarrow.parquet.read_table` of the same file, in turns.

python benchmarks/parquet.py TRACE [TIMES ...]

TRACE is any trace; it is repeated TIMES times (1, 10 and 30 by default). Ours gives a checked Trace, theirs
a table.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

import chakrakit as ck

ROUNDS = 5


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and elapsed time."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def fastest(works: list[Callable[[], object]]) -> list[tuple[float, ...]]:
    """The shortest CPU and elapsed time of each, measured in turns."""
    rounds = [[seconds(work) for work in works] for _ in range(ROUNDS)]
    return [tuple(map(min, zip(*found, strict=True))) for found in zip(*rounds, strict=True)]


def compare(trace: ck.Trace, folder: Path) -> str:
    """Both, and their ratios."""
    path = folder / "t.0.parquet"
    ck.write(trace, path)
    (cpu, wall), (our_cpu, our_wall) = fastest(
        [lambda: pq.read_table(path), lambda: ck.read(path).trace(0).nodes]
    )
    return (
        f"{len(trace):,} nodes, {path.stat().st_size / 1e6:.1f} MB: "
        f"pyarrow {cpu:.3f} s CPU, {wall:.3f} s; ours {our_cpu:.3f} s CPU, {our_wall:.3f} s; "
        f"ours / pyarrow {our_cpu / cpu:.2f}, {our_wall / wall:.2f}"
    )


def main(source: str, *times: int) -> None:
    """One line per size."""
    first = ck.read(source)
    trace = first.trace(first.ranks[0])
    with tempfile.TemporaryDirectory() as folder:
        for n in times or (1, 10, 30):
            print(compare(ck.Trace.concat([trace] * n), Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
