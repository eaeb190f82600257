"""Communication as recorders see it: calls without the computation between them.

Names are imported when first used: who writes records does not load the reader of recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.sources.calls.flight_recorder import MAGIC, is_dump, plain_json, read_dump
    from chakrakit.sources.calls.link import CallRecording, link_calls
    from chakrakit.sources.calls.nccl_inspector import Inspected, is_inspector, read_inspector
    from chakrakit.sources.calls.record import STATES, RecordedCalls, RecordedGroup
    from chakrakit.sources.calls.trace import call_trace, times
    from chakrakit.sources.calls.writing import WrittenCall, flight_recorder_dump, inspector_lines

_HOME = {
    "CallRecording": "link",
    "Inspected": "nccl_inspector",
    "MAGIC": "flight_recorder",
    "RecordedCalls": "record",
    "RecordedGroup": "record",
    "STATES": "record",
    "WrittenCall": "writing",
    "call_trace": "trace",
    "flight_recorder_dump": "writing",
    "inspector_lines": "writing",
    "is_dump": "flight_recorder",
    "is_inspector": "nccl_inspector",
    "link_calls": "link",
    "plain_json": "flight_recorder",
    "read_dump": "flight_recorder",
    "read_inspector": "nccl_inspector",
    "times": "trace",
}

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

__getattr__ = late_names(__name__, _HOME)
