"""Results of serving: figures, tables, and the run as traces."""

from chakrakit.serving.results.figures import ServedRun
from chakrakit.serving.results.run import expanded, window_of, write_run
from chakrakit.serving.results.summary import (
    ServeResult,
    ServiceLevel,
    TenantFigures,
    with_intervals,
)

__all__ = [
    "ServeResult",
    "ServedRun",
    "ServiceLevel",
    "TenantFigures",
    "expanded",
    "window_of",
    "with_intervals",
    "write_run",
]
