"""What a captured rank is, as data: operators, groups, memory, and why a capture failed."""

from __future__ import annotations

from chakrakit.sources.capture.recording.failures import CaptureError, Finished, NeedsValue
from chakrakit.sources.capture.recording.patches import Patches, is_library, script_line
from chakrakit.sources.capture.recording.recording import (
    PHASES,
    Comm,
    Group,
    Op,
    Recording,
    Signature,
)

__all__ = [
    "PHASES",
    "CaptureError",
    "Comm",
    "Finished",
    "Group",
    "NeedsValue",
    "Op",
    "Patches",
    "Recording",
    "Signature",
    "is_library",
    "script_line",
]
