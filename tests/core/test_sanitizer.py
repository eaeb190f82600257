"""`make sanitize` tests the instrumented core and no other build of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chakrakit import _core


@pytest.mark.skipif("CHAKRA_EXPECT_SANITIZER" not in os.environ, reason="an ordinary run")
def test_the_core_is_the_instrumented_one() -> None:
    assert b"__asan_init" in Path(_core.__file__).read_bytes()
    assert "asan-venv" in _core.__file__
