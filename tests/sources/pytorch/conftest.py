"""The recordings kept under tests/data/pytorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import paths


@pytest.fixture
def data() -> Path:
    return paths.DATA / "pytorch"
