"""JSON Schemas of what `--json` prints: `python -m chakrakit.commands.schemas [FOLDER]` writes them all."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

RESULTS = {
    "analyze": "chakrakit.insight.analysis.Analysis",
    "bundle": "chakrakit.trace.storage.bundle.BundleReport",
    "calibrate": "chakrakit.machines.calibrated.CalibrationReport",
    "campaign": "chakrakit.campaigns.result.CampaignResult",
    "capture": "chakrakit.sources.capture.folding.folded.CaptureReport",
    "collect": "chakrakit.sources.pytorch.linking.report.LinkReport",
    "collective": "chakrakit.simulator.results.collective_table.CollectiveTable",
    "compare": "chakrakit.insight.comparison.Comparison",
    "convert": "chakrakit.commands.results.Converted",
    "export": "chakrakit.trace.codecs.graph_export.Exported",
    "generate": "chakrakit.workloads.generate.figures.Figures",
    "info": "chakrakit.trace.query.description.Info",
    "conformance": "chakrakit.trace.conformance.checking.ConformanceResult",
    "get": "chakrakit.trace.library.fetching.FetchedBundle",
    "score": "chakrakit.exploration.scoring.scores.ScoreResult",
    "link": "chakrakit.sources.pytorch.linking.report.LinkReport",
    "live": "chakrakit.simulator.live.outcome.LiveSummary",
    "machines": "chakrakit.machines.drawing.MachinesReport",
    "models": "chakrakit.workloads.generate.figures.ModelList",
    "query": "chakrakit.commands.results.QueryResult",
    "replay": "chakrakit.replayer.result.ReplayReport",
    "report": "chakrakit.insight.analysis.Analysis",
    "search": "chakrakit.exploration.search.plan_search.SearchResult",
    "search-capture": "chakrakit.exploration.search.script_search.ScriptSearchResult",
    "search-serve": "chakrakit.exploration.search.serving_search.ServingSearchResult",
    "serve": "chakrakit.serving.results.summary.ServeResult",
    "simulate": "chakrakit.simulator.results.summary.SimulationSummary",
    "simulate-astra": "chakrakit.simulator.astra.result.AstraSummary",
    "studies": "chakrakit.published.recorded.StudyLines",
    "study": "chakrakit.published.verdict.StudyResult",
    "transform": "chakrakit.passes.base.pipeline.Transformed",
    "transform-list": "chakrakit.passes.base.registry.PassList",
    "sweep": "chakrakit.exploration.sweep.sweep_run.SweepResult",
    "validate": "chakrakit.trace.validation.findings.ValidationReport",
}
"""Command → the Struct it prints with --json; `transform-list` is `transform --list`, and so on."""

FILES = {"workload-card": "chakrakit.trace.storage.cards.WorkloadCard"}
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
