"""Reading our own Parquet beside `pyarrow.parquet.read_table` of the same file, in the same run.

python benchmarks/parquet.py TRACE [TIMES]

TRACE is any trace; it is repeated TIMES times (10 by default). Ours gives a checked Trace, theirs a table.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

import chakrakit as ck


def fastest(work: Callable[[], object], rounds: int = 5) -> float:
    """CPU seconds of the fastest of some rounds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def main(source: str, times: int = 10) -> None:
    """Both, and their ratio."""
    first = ck.read(source)
    trace = ck.Trace.concat([first.trace(first.ranks[0])] * times)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.0.parquet"
        ck.write(ck.TraceSet([trace]), str(path))
        theirs = fastest(lambda: pq.read_table(path))
        ours = fastest(lambda: ck.read(str(path)).trace(0).nodes)
        size = path.stat().st_size
    print(
        f"{len(trace):,} nodes, {size / 1e6:.1f} MB: pyarrow {theirs:.3f} s, ours {ours:.3f} s CPU"
    )
    print(f"ours / pyarrow: {ours / theirs:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:3]))
