"""Programs in the manner of public ones are captured as they are; `make programs` captures all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="pip install torch")
sys.path.insert(0, str(Path(__file__).parent))

import capture_all
import idioms


def test_at_least_fifty_programs_are_named_with_their_source() -> None:
    assert len(idioms.PROGRAMS) >= 50
    assert all(source for source, _ in idioms.SOURCES.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["imagenet", "own_dataset", "nanogpt", "generated", "titan_like", "moco", "metrics"]
)
def test_a_program_is_captured_valid_and_simulated(name: str) -> None:
    assert capture_all.outcome(name, 8) == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["megatron_like", "unequal"])
def test_a_program_is_captured_on_many_ranks(name: str) -> None:
    assert capture_all.outcome(name, 512) == "ok"
