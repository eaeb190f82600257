"""What several tests of traces share."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import write
from support.bundled import some_run


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "run.chakra"
    write(some_run(), path)
    return path
