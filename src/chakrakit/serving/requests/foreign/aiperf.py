"""AIPerf's records of a run, `profile_export.jsonl`: JSON lines, each a request.

`metadata` has request_start_ns, request_end_ns, benchmark_phase (warmup or profiling), was_cancelled, and for
conversations turn_index, x_correlation_id (one of each time that it was held) and conversation_id (which of
the dataset); `metrics` has input_sequence_length and output_sequence_length, each `{"value": …, "unit":
"tokens"}`. Warm-up, cancelled requests and those with `error` are left out and counted. Beside it lie a
summary and, on demand, raw payloads, which have no requests with counts of tokens.
"""

from __future__ import annotations

from collections import Counter
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
    """Whether the first line has the metadata of a request, or this is the summary beside the records."""
    if head.lstrip()[:1] != b"{":
        return False
    return b'"request_start_ns"' in head.split(b"\n", 1)[0] or _is_summary(head)


def _is_summary(head: bytes) -> bool:
    return b'"request_count"' in head and b"aiperf" in head.lower()


def read_aiperf(data: bytes, path: str, seed: int) -> RequestStream:
    """The requests that were measured and succeeded."""
    if b'"request_start_ns"' not in data:
        raise FormatError(
            "is AIPerf's summary; give the requests, profile_export.jsonl beside it", path=path
        )
    left = Counter[str]()
    requests = list(_requests(data, path, left))
    notes = tuple(f"{n:,} requests {why} were left out" for why, n in sorted(left.items()))
    if left and not requests:
        raise FormatError(f"has no measured request: {'; '.join(notes)}", path=path)
    return stream_of_recorded(requests, path, notes=notes)


def _requests(data: bytes, path: str, left: Counter[str]) -> Iterator[RecordedRequest]:
    for number, line in enumerate(data.split(b"\n"), 1):
        where = f"line {number}"
        if not line.strip():
            continue
        try:
            row = object_of(msgspec.json.decode(line), "the line", where, path)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"{where} is not JSON: {error}", path=path) from None
        metadata = object_of(row.get("metadata"), "metadata", where, path)
        if why := _unmeasured(row, metadata):
            left[why] += 1
        else:
            yield _request(row, metadata, where, path)


def _unmeasured(row: dict[str, Any], metadata: dict[str, Any]) -> str:
    """Why a line is no measured request; "" for one that is."""
    if metadata.get("benchmark_phase") == "warmup":
        return "of the warm-up"
    if metadata.get("was_cancelled"):
        return "that were cancelled"
    return "that did not succeed" if row.get("error") else ""


def _request(
    row: dict[str, Any], metadata: dict[str, Any], where: str, path: str
) -> RecordedRequest:
    if "metrics" not in row:
        raise FormatError(
            f"{where} has no metrics, as in AIPerf's raw export; give profile_export.jsonl",
            path=path,
        )
    metrics = object_of(row.get("metrics"), "metrics", where, path)
    lengths = [
        number_of(_value(metrics.get(name)), name, where, path)
        for name in ("input_sequence_length", "output_sequence_length")
    ]
    times = [
        number_of(metadata.get(name), name, where, path) / 1e9
        for name in ("request_start_ns", "request_end_ns")
    ]
    named = [metadata.get(name) or "" for name in ("x_correlation_id", "conversation_id")]
    session = " ".join(map(str, named)).strip()
    turns = "turn_index" in metadata
    name = str(metadata.get("x_request_id") or "")
    return RecordedRequest(
        times[0], lengths[0], lengths[1], name, times[1], str(session) if turns else ""
    )


def _value(metric: object) -> object:
    return metric.get("value") if isinstance(metric, dict) else metric
