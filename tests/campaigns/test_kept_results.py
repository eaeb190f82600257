"""What campaigns of the examples come to with few histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import data
from support.damaged import outcomes, printed
from support.kept_results import compare
from support.paths import ROOT

JOBS = sorted((ROOT / "examples" / "campaigns").glob("*.yaml"))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_kept_histories(job: Path) -> None:
    compare(f"campaign-{job.stem}", data("campaign", job, "--histories", 6, "--seed", 5))


@pytest.mark.parametrize("name", ["campaign", "campaign-simple", "campaign-rented"])
def test_kept_outcomes_of_damaged_jobs(name: str, tmp_path: Path) -> None:
    """What jobs come to, and what is said to those that were damaged."""
    command = printed("campaign {in}/job.yaml --histories 2")
    compare(f"damaged-{name}", outcomes(name, tmp_path, command, 40))
