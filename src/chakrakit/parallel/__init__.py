"""The same function on many items: on this machine's cores, on Ray or on Dask.

    for outcome in each(simulate_one, points, engine="ray:10.0.0.1:6379"):
        keep(outcome.index, outcome.value, outcome.error)

Every engine runs one item per task, so that a worker that dies loses only the item it was running.
Functions and items travel pickled; on a cluster, chakrakit and the files an item names must be there too.
"""

from __future__ import annotations

from chakrakit.parallel.local import KEEPER, end_with_parent, run_kept
from chakrakit.parallel.outcome import ItemOutcome, cores
from chakrakit.parallel.workers import (
    ATTEMPTS,
    Progress,
    Workers,
    check_engine,
    each,
    quiet,
    spread,
)

__all__ = [
    "ATTEMPTS",
    "KEEPER",
    "ItemOutcome",
    "Progress",
    "Workers",
    "check_engine",
    "cores",
    "each",
    "end_with_parent",
    "quiet",
    "run_kept",
    "spread",
]
