"""chakrakit: Chakra execution traces, end to end.

Names are imported when first used, so that `import chakrakit` costs a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from chakrakit.insight.analysis import analyze
    from chakrakit.insight.compare import compare
    from chakrakit.sources.pytorch.collect import collect
    from chakrakit.sources.pytorch.linking import link
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
    from chakrakit.trace.query import query
    from chakrakit.trace.sets import Card, Run, Times, TraceSet
    from chakrakit.trace.storage import Feeder, feeder_paths, read, write
    from chakrakit.trace.timing import Schedule, schedule
    from chakrakit.trace.validation import ValidationReport, validate

_HOME = {
    "Binding": "trace.communication",
    "Card": "trace.sets",
    "CollectiveType": "trace.model",
    "EdgeForm": "trace.model",
    "EdgeKind": "trace.model",
    "Edges": "trace.model",
    "Feeder": "trace.storage",
    "Graph": "trace.model",
    "Groups": "trace.communication",
    "Member": "trace.model",
    "Metadata": "trace.model",
    "Node": "trace.model",
    "NodeType": "trace.model",
    "Run": "trace.sets",
    "Schedule": "trace.timing",
    "Times": "trace.sets",
    "Trace": "trace.model",
    "TraceBuilder": "trace.model",
    "TraceSet": "trace.sets",
    "ValidationReport": "trace.validation",
    "analyze": "insight.analysis",
    "collect": "sources.pytorch.collect",
    "compare": "insight.compare",
    "feeder_paths": "trace.storage",
    "link": "sources.pytorch.linking",
    "open_writer": "trace.codecs",
    "query": "trace.query",
    "read": "trace.storage",
    "scan_trace": "trace.codecs",
    "schedule": "trace.timing",
    "validate": "trace.validation",
    "write": "trace.storage",
}

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
