"""Replacements that are taken back after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from chakrakit.sources.capture.observing import (
    KnownValues,
    RealValues,
    Recorder,
    Storages,
    Whereabouts,
)
from chakrakit.sources.capture.recording import Patches


@pytest.fixture
def patches() -> Iterator[Patches]:
    made = Patches()
    yield made
    made.undo()


@pytest.fixture
def recorder() -> Recorder:
    made = Recorder(Whereabouts(), Storages(), KnownValues(Patches()), RealValues(Patches()))
    made.recording = True
    return made


@pytest.fixture
def fake() -> Iterator[FakeTensorMode]:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode
