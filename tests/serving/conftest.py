"""Serves a stream on one pool of engines."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.serving.cluster import Outcome, PoolSetup, Setup, run
from chakrakit.serving.requests import Stream
from support.serving_engines import Serve


@pytest.fixture
def serve() -> Serve:
    """Serves a stream on one pool."""

    def served(stream: Stream, own: PoolSetup, **settings: Any) -> Outcome:
        return run(Setup(stream, [own], record_steps=True, **settings))

    return served
