"""What campaigns of the examples come to with few histories."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.campaigns.telemetry import SIGNS, Incident, telemetry
from support.commands import data
from support.damaged import compare_outcomes, damages, printed
from support.kept_results import checksums, compare, of_set
from support.paths import ROOT

JOBS = sorted((ROOT / "examples" / "campaigns").glob("*.yaml"))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_kept_histories(job: Path) -> None:
    compare(f"campaign-{job.stem}", data("campaign", job, "--histories", 6, "--seed", 5))


@pytest.mark.parametrize(
    "job", [pytest.param(j, marks=pytest.mark.slow if j.stem != "slow_nodes" else ()) for j in JOBS],
    ids=lambda job: job.stem,
)  # fmt: skip
def test_kept_runs_of_histories(job: Path, tmp_path: Path) -> None:
    """Two histories as Runs, with what their counters and signals say."""
    figures = {}
    for number in (0, 3):
        run = tmp_path / str(number)
        words = (
            "campaign",
            job,
            "--histories",
            4,
            "--seed",
            7,
            "--no-changes",
            "--history",
            number,
        )
        result = data(*words, "-o", run)
        written = ck.read(run)
        counters = {name: table.to_pydict() for name, table in written.counters.items()}
        times = [[written.start(r).tolist(), written.end(r).tolist()] for r in written.ranks]
        figures[str(number)] = [result, of_set(written), counters, times]
    compare(f"campaign-run-{job.stem}", checksums(figures))


def test_kept_signals() -> None:
    """Nodes of which each has an incident of another kind, one after the other, and one is well."""
    incidents = [Incident(i, kind, 3 + 5 * i, 20 + 5 * i) for i, kind in enumerate(sorted(SIGNS))]
    shown = telemetry(len(incidents) + 1, 60, incidents, seed=2, seconds=30.0)
    tables = {"table": shown.table(), "series": shown.series(9.5), "labels": shown.labels(9.5)}
    compare("signals", {name: checksums(table.to_pydict()) for name, table in tables.items()})


@damages(40, 300)
@pytest.mark.parametrize("name", ["campaign", "campaign-simple", "campaign-rented"])
def test_kept_outcomes_of_damaged_jobs(name: str, numbers: range, tmp_path: Path) -> None:
    """What jobs come to, and what is said to those that were damaged."""
    command = printed("campaign {in}/job.yaml --histories 2")
    compare_outcomes(name, tmp_path, command, numbers)
