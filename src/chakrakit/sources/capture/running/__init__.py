"""Running ranks: one session in this process, or one process for each rank. Needs torch."""

from __future__ import annotations

from chakrakit.sources.capture.running.process import (
    Ranks,
    Request,
    failure_of,
    finish,
    forked,
    recorded,
    silence,
)
from chakrakit.sources.capture.running.script import Script, script_of
from chakrakit.sources.capture.running.session import CaptureOptions, Session

__all__ = [
    "CaptureOptions",
    "Ranks",
    "Request",
    "Script",
    "Session",
    "failure_of",
    "finish",
    "forked",
    "recorded",
    "script_of",
    "silence",
]
