"""The public functions: everything the commands do, under the same names and with the same arguments.

Names are imported when first used: a command does not pay for the rooms of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chakrakit.api.astra import simulate_as_astra
    from chakrakit.api.explore import FoundPlan, FoundScript, FoundService, campaign, search, sweep
    from chakrakit.api.look import analyze, compare
    from chakrakit.api.machines import calibrate, collective, list_machines
    from chakrakit.api.pages import report, view
    from chakrakit.api.published import studies, study
    from chakrakit.api.recordings import LinkedRun, link
    from chakrakit.api.replays import replay
    from chakrakit.api.simulation import simulate, simulate_jobs
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
    from chakrakit.api.workloads import GeneratedTraces, generate, models

_HOME = {
    "Converted": "traces",
    "FoundPlan": "explore",
    "FoundScript": "explore",
    "FoundService": "explore",
    "GeneratedTraces": "workloads",
    "LinkedRun": "recordings",
    "QueryResult": "traces",
    "TransformedTraces": "traces",
    "analyze": "look",
    "bundle": "traces",
    "calibrate": "machines",
    "campaign": "explore",
    "collective": "machines",
    "compare": "look",
    "convert": "traces",
    "export": "traces",
    "generate": "workloads",
    "info": "traces",
    "link": "recordings",
    "list_machines": "machines",
    "models": "workloads",
    "query": "traces",
    "replay": "replays",
    "report": "pages",
    "search": "explore",
    "simulate": "simulation",
    "simulate_as_astra": "astra",
    "simulate_jobs": "simulation",
    "studies": "published",
    "study": "published",
    "sweep": "explore",
    "transform": "traces",
    "validate": "traces",
    "view": "pages",
}
"""Name → the module that has it."""

__all__ = [
    "Converted",
    "FoundPlan",
    "FoundScript",
    "FoundService",
    "GeneratedTraces",
    "LinkedRun",
    "QueryResult",
    "TransformedTraces",
    "analyze",
    "bundle",
    "calibrate",
    "campaign",
    "collective",
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
    "simulate_as_astra",
    "simulate_jobs",
    "studies",
    "study",
    "sweep",
    "transform",
    "validate",
    "view",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'chakrakit.api' has no attribute {name!r}")
    value = getattr(import_module(f"chakrakit.api.{_HOME[name]}"), name)
    globals()[name] = value
    return value
