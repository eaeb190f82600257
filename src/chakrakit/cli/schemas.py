"""JSON Schemas of what `--json` prints: `python -m chakrakit.cli.schemas [FOLDER]` writes them all."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

RESULTS = {
    "analyze": "chakrakit.insight.analysis.Analysis",
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
    "simulate": "chakrakit.simulator.summary.SimulationSummary",
    "validate": "chakrakit.trace.validation.findings.ValidationReport",
}
"""Command → the Struct it prints with --json."""


def result_type(command: str) -> Any:
    """The Struct a command prints."""
    module, _, name = RESULTS[command].rpartition(".")
    return getattr(import_module(module), name)


def schema_text(command: str) -> bytes:
    """The JSON Schema of a command's result, indented."""
    schema = msgspec.json.schema(result_type(command))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"chakra {command} --json",
    }
    return msgspec.json.format(msgspec.json.encode({**head, **schema}), indent=2) + b"\n"


def main(folder: str = "docs/schemas") -> None:
    """Writes NAME.json for every command."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for command in RESULTS:
        Path(folder, f"{command}.json").write_bytes(schema_text(command))


if __name__ == "__main__":
    main(*sys.argv[1:2])
