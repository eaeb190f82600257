"""Replacements that are taken back after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from chakrakit.sources.capture.observing.known_values import KnownValues
from chakrakit.sources.capture.observing.recorder import Recorder
from chakrakit.sources.capture.observing.storages import Storages
from chakrakit.sources.capture.observing.whereabouts import Whereabouts
from chakrakit.sources.capture.recording.patches import Patches


@pytest.fixture
def patches() -> Iterator[Patches]:
    made = Patches()
    yield made
    made.undo()


@pytest.fixture
def recorder() -> Recorder:
    made = Recorder(Whereabouts(), Storages(), KnownValues(Patches()))
    made.recording = True
    return made


@pytest.fixture
def fake() -> Iterator[FakeTensorMode]:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode
