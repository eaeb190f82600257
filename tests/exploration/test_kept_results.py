"""What a sweep of a small space finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import data
from support.kept_results import compare


@pytest.mark.slow
def test_kept_sweep(tmp_path: Path, study_text: str) -> None:
    (tmp_path / "study.yaml").write_text(study_text)
    result = data("sweep", tmp_path / "study.yaml", "-o", tmp_path / "out")
    compare("swept", without_seconds(result))


def without_seconds(result: dict[str, object]) -> dict[str, object]:
    """The result without how long it took and where it lies."""
    return {
        k: v for k, v in result.items() if k not in ("seconds", "output", "folder", "table", "page")
    }
