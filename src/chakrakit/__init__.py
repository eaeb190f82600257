"""chakrakit: Chakra execution traces, end to end.

Names are imported when first used, so that `import chakrakit` costs a few milliseconds.
"""

from __future__ import annotations

__version__ = "0.1.0"

_HOMES = {
    "Analysis": "insight.analysis",
    "Anonymize": "passes.anonymize",
    "AstraSimulation": "simulator.astra",
    "AttentionWork": "workloads.blocks",
    "Binding": "trace.communication",
    "Cache": "passes.tiers",
    "Card": "trace.sets",
    "ChakraError": "errors",
    "CollectiveType": "trace.model",
    "Comm": "passes.comm",
    "Compact": "passes.compact",
    "Comparison": "insight.comparison",
    "ConfigError": "errors",
    "DeadlockError": "errors",
    "EdgeForm": "trace.model",
    "EdgeKind": "trace.model",
    "Edges": "trace.model",
    "Edit": "passes.edit",
    "Feeder": "trace.storage",
    "FormatError": "errors",
    "FoundPlan": "commands.results",
    "FoundScript": "commands.results",
    "FoundService": "commands.results",
    "GeneratedTraces": "commands.results",
    "GnnGraph": "workloads.parts",
    "GnnStep": "workloads.parts",
    "Graph": "trace.model",
    "Groups": "trace.communication",
    "LinkedRun": "commands.results",
    "Machine": "machines.fabric",
    "Member": "trace.model",
    "Metadata": "trace.model",
    "MissingExtra": "errors",
    "Node": "trace.model",
    "NodeType": "trace.model",
    "Offload": "passes.tiers",
    "Pass": "passes.base",
    "Picture": "views.pictures",
    "Plan": "workloads.description",
    "Portable": "passes.portable",
    "QueryResult": "commands.results",
    "Recost": "passes.recost",
    "Run": "trace.sets",
    "ScaleRanks": "passes.scale",
    "Schedule": "trace.timing",
    "Section": "workloads.description",
    "SectionGraph": "workloads.description",
    "Select": "passes.select",
    "Simulation": "simulator.results",
    "SimulationOptions": "simulator.engine",
    "Step": "workloads.description",
    "SpatialPlan": "workloads.spatial",
    "Steps": "insight.step_times",
    "Storage": "passes.storage",
    "Times": "trace.sets",
    "Trace": "trace.model",
    "TraceBuilder": "trace.model",
    "TraceError": "errors",
    "TraceSet": "trace.sets",
    "TransformedTraces": "commands.results",
    "Units": "passes.units",
    "ValidationReport": "trace.validation",
    "Workers": "parallel",
    "Workload": "workloads.description",
    "analyze": "commands.analyze",
    "bundle": "commands.bundle",
    "calibrate": "commands.calibrate",
    "campaign": "commands.campaign",
    "capture": "commands.capture",
    "capture_jax": "commands.capture",
    "collect": "commands.collect",
    "collective": "commands.collective",
    "compare": "commands.compare",
    "conformance": "commands.conformance",
    "get": "commands.get",
    "score": "commands.score",
    "convert": "commands.convert",
    "counted": "operators",
    "export": "commands.export",
    "feeder_paths": "trace.storage",
    "generate": "commands.generate",
    "generate_attention": "workloads.blocks",
    "generate_gnn": "workloads.parts",
    "generate_spatial": "workloads.spatial",
    "info": "commands.info",
    "link": "commands.link",
    "list_machines": "commands.machines",
    "list_passes": "passes.base",
    "load_machine": "machines.load",
    "machine": "machines.load",
    "models": "commands.models",
    "open_writer": "trace.codecs",
    "plot": "views.pictures",
    "query": "commands.query",
    "read": "trace.storage",
    "read_algorithm": "simulator.custom",
    "replay": "commands.replay",
    "report": "commands.report",
    "run_program": "commands.live",
    "scan_trace": "trace.codecs",
    "schedule": "trace.timing",
    "search": "commands.search",
    "serve": "commands.serve",
    "simulate": "commands.simulate",
    "simulate_jobs": "commands.simulate",
    "steps": "insight.step_times",
    "studies": "commands.studies",
    "study": "commands.study",
    "sweep": "commands.sweep",
    "transform": "commands.transform",
    "validate": "commands.validate",
    "view": "commands.view",
    "write": "trace.storage",
}
"""Every public name → where it is. `__init__.pyi` says the same to type checkers: `make stubs` writes it."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'chakrakit' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"chakrakit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
