"""A replay as a folder: plans, runner and the trace they came from; `python FOLDER/run.py` runs it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.replayer.run.comparison import Original
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


def _copy_code(source: Traversable, target: Path) -> None:
    """Python files of a folder and of those in it."""
    target.mkdir(parents=True, exist_ok=True)
    for item in source.iterdir():
        if item.is_dir() and item.name != "__pycache__":
            _copy_code(item, target / item.name)
        elif item.name.endswith(".py"):
            (target / item.name).write_bytes(item.read_bytes())


def export_plans(
    plans: Sequence[AnyPlan], traces: TraceSet, folder: Path, original: list[Original]
) -> None:
    """Write plans, runner and trace into a new folder, moved into place when it is whole."""
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise ConfigError(f"{folder} exists and is not empty; export to a new folder")
    with fresh_directory(folder) as part:
        _fill(part, plans, traces, original)


def _fill(part: Path, plans: Sequence[AnyPlan], traces: TraceSet, original: list[Original]) -> None:
    _copy_code(files("chakrakit.replayer.runner"), part / "runner")
    (part / "run.py").write_text(_RUN)
    ranks = [summarize(p) for p in plans]
    told = recorded_step_of(traces.card)
    summary = Summary(plans[0].mode, plans[0].device, ranks, told, original)
    (part / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1))
    if isinstance(plans[0], EmulationPlan):  # its nodes get the times that are measured
        write(traces, part / TRACE)
    for rank, plan in enumerate(plans):
        data = gzip.compress(msgspec.json.encode(plan), 9, mtime=0)
        (part / f"plan_{rank}.json.gz").write_bytes(data)
