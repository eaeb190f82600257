"""Small studies that run in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

STUDY = """\
name: tiny
workload:
  model: {base: llama3.1-8b, layers: 2}
  step: {seq: 512, global_batch: 8}
ranks: 8
axes:
  plan.tp: [1, 2, 4]
  plan.data: [zero1, fsdp]
machines:
  - dgx-h100
  - {base: dgx-h100, name: slow, network.0.bandwidth: 45 GB/s}
"""


@pytest.fixture(scope="session")
def study_text() -> str:
    """A study of twelve points."""
    return STUDY


@pytest.fixture
def study_file(tmp_path: Path, study_text: str) -> Path:
    """The same as a file."""
    path = tmp_path / "tiny.yaml"
    path.write_text(study_text)
    return path
