"""Communication as recorders see it: calls without the computation between them."""

from __future__ import annotations

from chakrakit.sources.calls.flight_recorder import MAGIC, is_dump, plain_json, read_dump
from chakrakit.sources.calls.link import CallRecording, link_calls
from chakrakit.sources.calls.nccl_inspector import Inspected, is_inspector, read_inspector
from chakrakit.sources.calls.record import STATES, RecordedCalls, RecordedGroup
from chakrakit.sources.calls.trace import call_trace, times
from chakrakit.sources.calls.writing import WrittenCall, flight_recorder_dump, inspector_lines

__all__ = [
    "MAGIC",
    "STATES",
    "CallRecording",
    "Inspected",
    "RecordedCalls",
    "RecordedGroup",
    "WrittenCall",
    "call_trace",
    "flight_recorder_dump",
    "inspector_lines",
    "is_dump",
    "is_inspector",
    "link_calls",
    "plain_json",
    "read_dump",
    "read_inspector",
    "times",
]
