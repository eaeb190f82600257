"""Edits of a run that stays in memory: CPU milliseconds of one more schedule, after the first.

    python benchmarks/editing.py [RUN …]

By default a linked rank of 99,000 nodes and Llama-3.1-405B on 16,384 ranks, folded.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import chakrakit as ck
from chakrakit.insight.rank import as_run
from chakrakit.simulator.results import EditSession
from chakrakit.trace.sets import Run
from link import write_pair

CLAIM_MS = 100


def linked() -> Run:
    """A recording of 66,000 operators and 16,500 kernels with their calls."""
    with tempfile.TemporaryDirectory() as folder:
        write_pair(Path(folder), 66_000)
        run: Run = ck.link(folder).run
        return run


def folded() -> Run:
    """16,384 ranks in 112 classes."""
    plan = {"dp": 128, "tp": 8, "pp": 16, "seq": 8192, "global_batch": 1024, "micro_batch": 1}
    traces = ck.generate(model="llama3.1-405b", **plan).traces
    return ck.simulate(traces, "dgx-h100:2048").run()


def measure(name: str, run: Run) -> None:
    """The first edit, and the middle of nine more."""
    session, taken = EditSession(run), []
    classes = "[elementwise]" if name == "linked" else "[gemm]"
    for factor in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1):
        began = time.process_time()
        session.edited([f"edit{{scale={factor}, classes={classes}}}"])
        taken.append(1e3 * (time.process_time() - began))
    rows = sum(len(run.body_at(i)) for i in range(run.body_count))
    middle = sorted(taken[1:])[4]
    print(
        f"{name}: {len(run):,} ranks, {rows:,} rows: first {taken[0]:,.0f} ms, then {middle:.0f} ms "
        f"({'within' if middle <= CLAIM_MS else 'above'} {CLAIM_MS} ms)"
    )


def main() -> None:
    """As the module says."""
    if len(sys.argv) > 1:
        for path in sys.argv[1:]:
            measure(path, as_run(ck.read(path), path))
        return
    measure("linked", linked())
    measure("folded", folded())


if __name__ == "__main__":
    main()
