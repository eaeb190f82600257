"""The public functions: everything the commands do, under the same names and with the same arguments."""

from __future__ import annotations

from chakrakit.api.explore import FoundPlan, FoundService, search, sweep
from chakrakit.api.look import analyze, compare, report, view
from chakrakit.api.make import GeneratedTraces, LinkedRun, generate, link, models
from chakrakit.api.run import calibrate, list_machines, replay, simulate, simulate_jobs
from chakrakit.api.traces import (
    Converted,
    QueryResult,
    TransformedTraces,
    bundle,
    convert,
    export,
    info,
    query,
    transform,
    validate,
)

__all__ = [
    "Converted",
    "FoundPlan",
    "FoundService",
    "GeneratedTraces",
    "LinkedRun",
    "QueryResult",
    "TransformedTraces",
    "analyze",
    "bundle",
    "calibrate",
    "compare",
    "convert",
    "export",
    "generate",
    "info",
    "link",
    "list_machines",
    "models",
    "query",
    "replay",
    "report",
    "search",
    "simulate",
    "simulate_jobs",
    "sweep",
    "transform",
    "validate",
    "view",
]
