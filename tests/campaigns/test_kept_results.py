"""What campaigns of the examples come to with few histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import data
from support.kept_results import compare
from support.paths import ROOT

JOBS = sorted((ROOT / "examples" / "campaigns").glob("*.yaml"))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_kept_histories(job: Path) -> None:
    compare(f"campaign-{job.stem}", data("campaign", job, "--histories", 6, "--seed", 5))
