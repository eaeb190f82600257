"""The same function on many items: on this machine's cores, on Ray or on Dask.

    for outcome in each(simulate_one, points, engine="ray:10.0.0.1:6379"):
        keep(outcome.index, outcome.value, outcome.error)

Every engine runs one item per task, so that a worker which dies takes nothing but its own item with it.
Functions and items travel pickled; on a cluster, chakrakit and the files an item names must be there too.
"""

from __future__ import annotations

from chakrakit.parallel.as_finished import ATTEMPTS, each
from chakrakit.parallel.engine import cores
from chakrakit.parallel.in_order import Workers, spread
from chakrakit.parallel.orphans import end_with_parent
from chakrakit.parallel.outcome import Outcome
from chakrakit.parallel.progress import Progress, quiet
from chakrakit.parallel.starter import check_engine

__all__ = [
    "ATTEMPTS",
    "Outcome",
    "Progress",
    "Workers",
    "check_engine",
    "cores",
    "each",
    "end_with_parent",
    "quiet",
    "spread",
]
