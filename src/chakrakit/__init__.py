"""chakrakit: Chakra execution traces, end to end.

Names are imported when first used, so that `import chakrakit` costs a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from chakrakit.api import (
        FoundPlan,
        FoundScript,
        FoundService,
        GeneratedTraces,
        LinkedRun,
        QueryResult,
        TransformedTraces,
        analyze,
        bundle,
        calibrate,
        campaign,
        collective,
        compare,
        convert,
        export,
        generate,
        info,
        link,
        list_machines,
        models,
        query,
        replay,
        report,
        search,
        simulate,
        simulate_jobs,
        studies,
        study,
        sweep,
        transform,
        validate,
        view,
    )
    from chakrakit.errors import (
        ChakraError,
        ConfigError,
        DeadlockError,
        FormatError,
        MissingExtra,
        TraceError,
    )
    from chakrakit.insight.analysis import Analysis
    from chakrakit.insight.compare import Comparison
    from chakrakit.insight.time import Steps, steps
    from chakrakit.machines.fabric import Machine
    from chakrakit.machines.load import load_machine, machine
    from chakrakit.parallel import Workers
    from chakrakit.passes.anonymize import Anonymize
    from chakrakit.passes.base import Pass, list_passes
    from chakrakit.passes.comm import Comm
    from chakrakit.passes.portable import Portable
    from chakrakit.passes.recost import Edit, Recost
    from chakrakit.passes.scale import ScaleRanks
    from chakrakit.passes.select import Compact, Select
    from chakrakit.passes.stored import Storage
    from chakrakit.serving import serve
    from chakrakit.simulator.astra import AstraSimulation
    from chakrakit.simulator.engine import SimulationOptions
    from chakrakit.simulator.results import Simulation
    from chakrakit.sources.capture import capture
    from chakrakit.sources.pytorch.collect import collect
    from chakrakit.sources.xla.jax import capture_jax
    from chakrakit.trace.codecs import open_writer, scan_trace
    from chakrakit.trace.communication import Binding, Groups
    from chakrakit.trace.model import (
        CollectiveType,
        EdgeForm,
        EdgeKind,
        Edges,
        Graph,
        Member,
        Metadata,
        Node,
        NodeType,
        Trace,
        TraceBuilder,
    )
    from chakrakit.trace.sets import Card, Run, Times, TraceSet
    from chakrakit.trace.storage import Feeder, feeder_paths, read, write
    from chakrakit.trace.timing import Schedule, schedule
    from chakrakit.trace.validation import ValidationReport
    from chakrakit.views.pages import Picture, plot
    from chakrakit.workloads.description import Plan, Step, Workload

_HOME = {
    "Analysis": "insight.analysis",
    "Anonymize": "passes",
    "AstraSimulation": "simulator.astra",
    "Binding": "trace.communication",
    "Card": "trace.sets",
    "ChakraError": "errors",
    "CollectiveType": "trace.model",
    "Comm": "passes",
    "Compact": "passes",
    "Comparison": "insight.compare",
    "ConfigError": "errors",
    "DeadlockError": "errors",
    "EdgeForm": "trace.model",
    "EdgeKind": "trace.model",
    "Edges": "trace.model",
    "Edit": "passes",
    "Feeder": "trace.storage",
    "FormatError": "errors",
    "FoundPlan": "api",
    "FoundScript": "api",
    "FoundService": "api",
    "GeneratedTraces": "api",
    "Graph": "trace.model",
    "Groups": "trace.communication",
    "LinkedRun": "api",
    "Machine": "machines.fabric",
    "Member": "trace.model",
    "Metadata": "trace.model",
    "MissingExtra": "errors",
    "Node": "trace.model",
    "NodeType": "trace.model",
    "Pass": "passes.base",
    "Picture": "views.pages",
    "Plan": "workloads.description",
    "Portable": "passes",
    "QueryResult": "api",
    "Recost": "passes",
    "Run": "trace.sets",
    "ScaleRanks": "passes",
    "Schedule": "trace.timing",
    "Select": "passes",
    "Simulation": "simulator.results",
    "SimulationOptions": "simulator.engine",
    "Step": "workloads.description",
    "Steps": "insight.time",
    "Storage": "passes",
    "Times": "trace.sets",
    "Trace": "trace.model",
    "TraceBuilder": "trace.model",
    "TraceError": "errors",
    "TraceSet": "trace.sets",
    "TransformedTraces": "api",
    "ValidationReport": "trace.validation",
    "Workers": "parallel",
    "Workload": "workloads.description",
    "analyze": "api",
    "bundle": "api",
    "calibrate": "api",
    "campaign": "api",
    "capture": "sources.capture",
    "capture_jax": "sources.xla.jax",
    "collect": "sources.pytorch.collect",
    "collective": "api",
    "compare": "api",
    "convert": "api",
    "export": "api",
    "feeder_paths": "trace.storage",
    "generate": "api",
    "info": "api",
    "link": "api",
    "list_machines": "api",
    "list_passes": "passes.base",
    "load_machine": "machines.load",
    "machine": "machines.load",
    "models": "api",
    "open_writer": "trace.codecs",
    "plot": "views.pages",
    "query": "api",
    "read": "trace.storage",
    "replay": "api",
    "report": "api",
    "scan_trace": "trace.codecs",
    "schedule": "trace.timing",
    "search": "api",
    "serve": "serving",
    "simulate": "api",
    "simulate_jobs": "api",
    "steps": "insight.time",
    "studies": "api",
    "study": "api",
    "sweep": "api",
    "transform": "api",
    "validate": "api",
    "view": "api",
    "write": "trace.storage",
}
"""Name → the room whose face has it."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'chakrakit' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"chakrakit.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
