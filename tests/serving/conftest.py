"""Serves a stream on one pool of engines."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.serving.cluster import PoolSetup, ServingOutcome, Setup, run
from chakrakit.serving.requests import RequestStream
from support.serving_engines import Serve


@pytest.fixture
def serve() -> Serve:
    """Serves a stream on one pool."""

    def served(stream: RequestStream, own: PoolSetup, **settings: Any) -> ServingOutcome:
        return run(Setup(stream, [own], record_steps=True, **settings))

    return served
