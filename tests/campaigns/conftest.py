"""Job files written by tests, and what many histories come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chakrakit.campaigns import CampaignJob, read_job

MINIMAL = """\
step_seconds: 10
steps: 8640
cluster: {nodes: 16, spares: 1}
failures: {node_mtbf_hours: 50000}
checkpoint: {interval_steps: 100, seconds: 5}
recovery: restart
"""


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a job file: the minimal one, with some of its lines replaced, left out (None) or added."""

    def write(text: str = MINIMAL, **lines: str | None) -> Path:
        kept = [line for line in text.splitlines() if line.partition(":")[0] not in lines]
        kept += [f"{name}: {value}" for name, value in lines.items() if value is not None]
        path = tmp_path / "job.yaml"
        path.write_text("\n".join(kept) + "\n")
        return path

    return write


@pytest.fixture
def job(job_file: Callable[..., Path]) -> Callable[..., CampaignJob]:
    """A job from a file made the same way."""
    return lambda *args, **lines: read_job(job_file(*args, **lines))
