"""How often 90 % intervals hold what was measured, and whether differences have the right sign."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import training
from claim import percent, table

import residuals
from chakrakit.errors import ChakraError
from chakrakit.machines.residuals import Interval, difference, residual_table
from chakrakit.simulator.results import SimulationSummary

MOST_GPUS = 64
"""Published steps on more GPUs take minutes to simulate."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; also writes the table of residuals that the package ships."""
    residuals.main(str(data))
    residual_table.cache_clear()
    found = residual_table()
    lines = [(name, rows, percent(share)) for name, (rows, share) in found.coverage.items()]
    pairs = list(differences(data))
    sure = [right for right, certain in pairs if certain]
    text = (
        f"Of {len(pairs)} pairs of published steps of one framework on one system, neither of them fitted, "
        f"{len(sure)} differ by an interval without zero; the sign is right in {sum(sure)} of those."
    )
    return "\n\n".join([TEXT, table(("rows", "number", "within"), lines), text])


def differences(data: Path) -> Iterator[tuple[bool, bool]]:
    """For pairs of published steps, whether the sign is right, and whether the interval excludes zero."""
    steps: dict[tuple[str, str], list[tuple[float, SimulationSummary]]] = {}
    for row in training.training_rows(data):
        if row.fitted or row.gpus > MOST_GPUS or not row.dense:
            continue
        try:
            summary, step = row.simulated(row.framework).summary, row.workload().step
        except (ChakraError, KeyError):
            continue
        seconds = step.global_batch * step.seq / row.gpus / row.published
        steps.setdefault((row.framework, row.row["system"]), []).append((seconds, summary))
    for some in steps.values():
        for (first, a), (second, b) in itertools.pairwise(some):
            assert a.interval_ns is not None
            assert b.interval_ns is not None
            delta = b.makespan_ns - a.makespan_ns
            low, high = difference(
                Interval(*a.interval_ns, groups=a.interval_groups),
                Interval(*b.interval_ns, groups=b.interval_groups),
                delta,
            )
            right = math.copysign(1, delta) == math.copysign(1, second - first)
            yield right, low > 0 or high < 0


TITLE = "Intervals"
TEXT = """\
The 90 % intervals that results print come from residuals of rows that nothing was fitted on: products,
attention and decoding of ai-dynamo/aiconfigurator 095f58a (on carried profiles with corrections fitted on
every other row), operators recorded on one H200, NCCL on 4 GPUs, published serving and training rows. Here
every second row gives the intervals and the others are counted. A kernel's group is its rung, kind, size,
whether it lies outside of what was measured, and system; groups with fewer than 20 rows are part of a wider
one. Between nodes nothing but DeepEP's exchange was measured, and results say so. A test fails where less
than 80 % of 20 rows or more are within."""
