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
    from chakrakit.sources.pytorch.link import link
    from chakrakit.trace.binding import Binding
    from chakrakit.trace.builder import TraceBuilder
    from chakrakit.trace.card import Card
    from chakrakit.trace.edges import EdgeForm, EdgeKind, Edges
    from chakrakit.trace.feeder import Feeder, feeder_paths
    from chakrakit.trace.formats import open_writer, scan_trace
    from chakrakit.trace.graph import Graph
    from chakrakit.trace.groups import Groups
    from chakrakit.trace.metadata import Metadata
    from chakrakit.trace.node import Node
    from chakrakit.trace.run import Run, Times
    from chakrakit.trace.schedule import Schedule, schedule
    from chakrakit.trace.schema import CollectiveType, Member, NodeType
    from chakrakit.trace.sql import query
    from chakrakit.trace.store import read, write
    from chakrakit.trace.trace import Trace
    from chakrakit.trace.traceset import TraceSet
    from chakrakit.trace.validation.check import validate
    from chakrakit.trace.validation.findings import ValidationReport

_HOME = {
    "Binding": "trace.binding",
    "Card": "trace.card",
    "CollectiveType": "trace.schema",
    "EdgeForm": "trace.edges",
    "EdgeKind": "trace.edges",
    "Edges": "trace.edges",
    "Feeder": "trace.feeder",
    "Graph": "trace.graph",
    "Groups": "trace.groups",
    "Member": "trace.schema",
    "Metadata": "trace.metadata",
    "Node": "trace.node",
    "NodeType": "trace.schema",
    "Run": "trace.run",
    "Schedule": "trace.schedule",
    "Times": "trace.run",
    "Trace": "trace.trace",
    "TraceBuilder": "trace.builder",
    "TraceSet": "trace.traceset",
    "ValidationReport": "trace.validation.findings",
    "analyze": "insight.analysis",
    "collect": "sources.pytorch.collect",
    "compare": "insight.compare",
    "feeder_paths": "trace.feeder",
    "link": "sources.pytorch.link",
    "open_writer": "trace.formats",
    "query": "trace.sql",
    "read": "trace.store",
    "scan_trace": "trace.formats",
    "schedule": "trace.schedule",
    "validate": "trace.validation.check",
    "write": "trace.store",
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
