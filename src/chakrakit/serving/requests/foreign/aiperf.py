"""AIPerf's records of a run, `profile_export.jsonl`: JSON lines, each a request.

`metadata` has request_start_ns, request_end_ns, and for conversations conversation_id (or
x_correlation_id) and turn_index; `metrics` has input_sequence_length and output_sequence_length, each
`{"value": …, "unit": "tokens"}`. A line with `error` is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chakrakit.errors import FormatError
from chakrakit.serving.requests.foreign.recorded_requests import (
    RecordedRequest,
    number_of,
    object_of,
    stream_of_recorded,
)
from chakrakit.serving.requests.stream import RequestStream


def is_aiperf(head: bytes) -> bool:
    """Whether the first line has the metadata and metrics of a request."""
    line = head.split(b"\n", 1)[0]
    return line.lstrip()[:1] == b"{" and b'"request_start_ns"' in line and b'"metrics"' in line


def read_aiperf(data: bytes, path: str, seed: int) -> RequestStream:
    """The requests that succeeded."""
    return stream_of_recorded(list(_requests(data, path)), path)


def _requests(data: bytes, path: str) -> Iterator[RecordedRequest]:
    for number, line in enumerate(data.split(b"\n"), 1):
        where = f"line {number}"
        if not line.strip():
            continue
        try:
            row = object_of(msgspec.json.decode(line), "the line", where, path)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"{where} is not JSON: {error}", path=path) from None
        if not row.get("error"):
            yield _request(row, where, path)


def _request(row: dict[str, Any], where: str, path: str) -> RecordedRequest:
    metadata = object_of(row.get("metadata"), "metadata", where, path)
    metrics = object_of(row.get("metrics"), "metrics", where, path)
    lengths = [
        number_of(_value(metrics.get(name)), name, where, path)
        for name in ("input_sequence_length", "output_sequence_length")
    ]
    times = [
        number_of(metadata.get(name), name, where, path) / 1e9
        for name in ("request_start_ns", "request_end_ns")
    ]
    session = metadata.get("conversation_id") or metadata.get("x_correlation_id") or ""
    turns = "turn_index" in metadata
    name = str(metadata.get("x_request_id") or "")
    return RecordedRequest(
        times[0], lengths[0], lengths[1], name, times[1], str(session) if turns else ""
    )


def _value(metric: object) -> object:
    return metric.get("value") if isinstance(metric, dict) else metric
