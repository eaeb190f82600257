"""Observes what PyTorch dispatches: operators, storages, modules, known values. Needs torch."""

from __future__ import annotations

from chakrakit.sources.capture.observing.communication import tensors
from chakrakit.sources.capture.observing.known_values import KnownValues
from chakrakit.sources.capture.observing.program_streams import ProgramStreams
from chakrakit.sources.capture.observing.real_values import RealValues
from chakrakit.sources.capture.observing.recorder import Recorder
from chakrakit.sources.capture.observing.shortcuts import view
from chakrakit.sources.capture.observing.storages import Storages, rounded
from chakrakit.sources.capture.observing.whereabouts import (
    BACKWARD,
    OPTIMIZER,
    RECOMPUTE,
    Whereabouts,
)

__all__ = [
    "BACKWARD",
    "OPTIMIZER",
    "RECOMPUTE",
    "KnownValues",
    "ProgramStreams",
    "RealValues",
    "Recorder",
    "Storages",
    "Whereabouts",
    "rounded",
    "tensors",
    "view",
]
