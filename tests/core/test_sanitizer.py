"""`make sanitize` tests the instrumented core and no other build of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import chakrakit.core as core


@pytest.mark.skipif("CHAKRA_EXPECT_SANITIZER" not in os.environ, reason="an ordinary run")
def test_the_core_is_the_instrumented_one() -> None:
    assert b"__asan_init" in Path(core.__file__).read_bytes()
    assert "sanitized" in core.__file__
