"""Capture of PyTorch programs: one rank of each kind run with fake tensors and fake process groups."""

from __future__ import annotations

from chakrakit.sources.capture.capturing import capture, capture_command
from chakrakit.sources.capture.folding import CaptureReport

__all__ = ["CaptureReport", "capture", "capture_command"]
