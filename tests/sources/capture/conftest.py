"""Captures of the programs beside the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="pip install torch")

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Captures a program by name: (report, traces); the same capture is made once for all tests."""
    from chakrakit import read
    from chakrakit.sources.capture import capture_command

    made: dict[str, Any] = {}

    def run(name: str, *arguments: str, ranks: int = 4, **options: Any) -> Any:
        key = repr((name, arguments, ranks, sorted(options.items())))
        if key not in made:
            out = tmp_path_factory.mktemp("captured") / f"{name}-{ranks}"
            command = ["python", str(PROGRAMS / f"{name}.py"), *arguments]
            made[key] = capture_command(command, out, ranks=ranks, **options), read(out)
        return made[key]

    return run
