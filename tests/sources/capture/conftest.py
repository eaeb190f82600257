"""Captures of the programs beside the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="pip install torch")

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def captured(tmp_path: Path) -> Callable[..., Any]:
    """Captures a program by name: (report, traces)."""
    from chakrakit import read
    from chakrakit.sources.capture import capture_command

    def run(name: str, *arguments: str, ranks: int = 4, **options: Any) -> Any:
        out = tmp_path / f"{name}-{ranks}"
        command = ["python", str(PROGRAMS / f"{name}.py"), *arguments]
        report = capture_command(command, out, ranks=ranks, **options)
        return report, read(out)

    return run
