"""A replay as a folder: plans, runner and the trace they came from; `python FOLDER/run.py` runs it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.replayer.run.emulate import EmulationPlan
from chakrakit.replayer.run.result import SUMMARY, AnyPlan, Summary, summarize
from chakrakit.trace.sets import TraceSet, recorded_step_of
from chakrakit.trace.storage import fresh_directory, write

_RUN = '''\
"""Replays the trace in this folder with PyTorch alone; see --help."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from runner.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(FOLDER))
'''


RESULTS, TRACE = "result", "trace"
"""Folders inside an exported one: what the runner writes, and the step it replays."""


def export_plans(plans: Sequence[AnyPlan], traces: TraceSet, folder: Path) -> None:
    """Write plans, runner and trace into a new folder, moved into place when it is whole."""
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise ConfigError(f"{folder} exists and is not empty; export to a new folder")
    with fresh_directory(folder) as part:
        _fill(part, plans, traces)


def _fill(part: Path, plans: Sequence[AnyPlan], traces: TraceSet) -> None:
    (part / "runner").mkdir()
    for source in files("chakrakit.replayer.runner").iterdir():
        if source.name.endswith(".py"):
            (part / "runner" / source.name).write_bytes(source.read_bytes())
    (part / "run.py").write_text(_RUN)
    ranks = [summarize(p) for p in plans]
    summary = Summary(plans[0].mode, plans[0].device, ranks, recorded_step_of(traces.card))
    (part / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1))
    if isinstance(plans[0], EmulationPlan):  # its nodes get the times that are measured
        write(traces, part / TRACE)
    for rank, plan in enumerate(plans):
        data = gzip.compress(msgspec.json.encode(plan), 9, mtime=0)
        (part / f"plan_{rank}.json.gz").write_bytes(data)
