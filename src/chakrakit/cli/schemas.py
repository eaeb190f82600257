"""JSON Schemas of what `--json` prints: `python -m chakrakit.cli.schemas [FOLDER]` writes them all."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

RESULTS = {
    "analyze": "chakrakit.insight.analysis.Analysis",
    "bundle": "chakrakit.trace.bundle.BundleReport",
    "calibrate": "chakrakit.machines.calibrated.CalibrationReport",
    "collect": "chakrakit.sources.pytorch.report.LinkReport",
    "compare": "chakrakit.insight.compare.Comparison",
    "convert": "chakrakit.cli.convert.Converted",
    "export": "chakrakit.trace.graph_export.Exported",
    "generate": "chakrakit.workloads.dry_run.Figures",
    "info": "chakrakit.trace.describe.Info",
    "link": "chakrakit.sources.pytorch.report.LinkReport",
    "machines": "chakrakit.machines.draw.MachinesReport",
    "models": "chakrakit.workloads.models.listing.Listing",
    "query": "chakrakit.cli.query.QueryResult",
    "replay": "chakrakit.replay.result.ReplayReport",
    "report": "chakrakit.insight.analysis.Analysis",
    "search": "chakrakit.studies.search.SearchResult",
    "simulate": "chakrakit.simulator.summary.SimulationSummary",
    "transform": "chakrakit.passes.transform.Transformed",
    "transform-list": "chakrakit.passes.listing.Listing",
    "sweep": "chakrakit.studies.sweep.SweepResult",
    "validate": "chakrakit.trace.validation.findings.ValidationReport",
}
"""Command → the Struct it prints with --json; `transform-list` is `transform --list`."""

FILES = {"workload-card": "chakrakit.trace.workload_card.WorkloadCard"}
"""Files that users write → the Struct they are read into."""


def result_type(command: str) -> Any:
    """The Struct a command prints, or a file is read into."""
    module, _, name = {**RESULTS, **FILES}[command].rpartition(".")
    return getattr(import_module(module), name)


def schema_text(command: str) -> bytes:
    """The JSON Schema of a command's result or of a file, indented."""
    schema = msgspec.json.schema(result_type(command))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": command if command in FILES else f"chakra {command} --json",
    }
    return msgspec.json.format(msgspec.json.encode({**head, **schema}), indent=2) + b"\n"


def main(folder: str = "docs/schemas") -> None:
    """Writes NAME.json for every command and file."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for command in (*RESULTS, *FILES):
        Path(folder, f"{command}.json").write_bytes(schema_text(command))


if __name__ == "__main__":
    main(*sys.argv[1:2])
