"""Sets of traces and what ran of them: TraceSet, Run and their card."""

from __future__ import annotations

from chakrakit.trace.sets.card import Card, read_card, write_card
from chakrakit.trace.sets.footprint import Footprint, footprint_of
from chakrakit.trace.sets.recorded_step import FILLED, RecordedStep, recorded_step_of
from chakrakit.trace.sets.run import PS_PER_NS, Run, Times, check_length, run_of, whole_ns
from chakrakit.trace.sets.traceset import TraceSet

__all__ = [
    "FILLED",
    "PS_PER_NS",
    "Card",
    "Footprint",
    "RecordedStep",
    "Run",
    "Times",
    "TraceSet",
    "check_length",
    "footprint_of",
    "read_card",
    "recorded_step_of",
    "run_of",
    "whole_ns",
    "write_card",
]
