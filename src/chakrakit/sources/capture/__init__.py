"""Capture of PyTorch programs: one rank of each kind run with fake tensors and fake process groups."""

from __future__ import annotations

from chakrakit.sources.capture.capturing import capture, capture_command, capture_traces
from chakrakit.sources.capture.folding import CaptureReport, CollectiveFigures, KindFigures

__all__ = [
    "CaptureReport",
    "CollectiveFigures",
    "KindFigures",
    "capture",
    "capture_command",
    "capture_traces",
]
