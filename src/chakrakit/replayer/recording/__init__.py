"""What is replayed: rows of a recording and the units among them."""

from __future__ import annotations

from chakrakit.replayer.recording.issue_order import issue_levels
from chakrakit.replayer.recording.load import load_traces, one_step
from chakrakit.replayer.recording.recording import Recording
from chakrakit.replayer.recording.settings import read_settings
from chakrakit.replayer.recording.units import Do, Unit, find_units

__all__ = [
    "Do",
    "Recording",
    "Unit",
    "find_units",
    "issue_levels",
    "load_traces",
    "one_step",
    "read_settings",
]
