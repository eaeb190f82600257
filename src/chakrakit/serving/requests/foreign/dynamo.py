"""Dynamo's request trace, `dynamo.request.trace.v1`: JSON lines, each an outer `timestamp` and an `event`.

Of events `request_end` only: `request` has input_tokens, output_tokens, request_received_ms,
total_time_ms and `replay` (trace_block_size, one rolling hash a block: equal hashes are equal prefixes);
`agent_context` the session. The time between the end of a request and the next of its session, in which
tools ran, is kept as it was.
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


def is_dynamo(head: bytes) -> bool:
    """Whether the first line names the schema."""
    return head.lstrip()[:1] == b"{" and b'"dynamo.request.trace.v1"' in head.split(b"\n", 1)[0]


def read_dynamo(data: bytes, path: str, seed: int) -> RequestStream:
    """The requests that ended."""
    units: set[int] = set()
    requests = list(_requests(data, path, units))
    if len(units) > 1:
        raise FormatError(f"blocks of {sorted(units)} tokens are mixed", path=path)
    return stream_of_recorded(requests, path, units.pop() if units else 16)


def _requests(data: bytes, path: str, units: set[int]) -> Iterator[RecordedRequest]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            event = object_of(msgspec.json.decode(line), "the line", where, path).get("event")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"{where} is not JSON: {error}", path=path) from None
        event = object_of(event, "event", where, path)
        if event.get("event_type") == "request_end":
            yield _request(event, where, path, units)


def _request(event: dict[str, Any], where: str, path: str, units: set[int]) -> RecordedRequest:
    request = object_of(event.get("request"), "request", where, path)
    arrived = (
        number_of(request.get("request_received_ms"), "request_received_ms", where, path) / 1e3
    )
    took = number_of(request.get("total_time_ms", 0), "total_time_ms", where, path) / 1e3
    replay, context = request.get("replay"), event.get("agent_context")
    ids: list[int] = []
    if isinstance(replay, dict):
        hashes, unit = replay.get("input_sequence_hashes"), replay.get("trace_block_size")
        if (
            isinstance(hashes, list)
            and all(type(h) is int for h in hashes)
            and type(unit) is int
            and unit > 0
        ):
            ids = hashes
            units.add(unit)
    return RecordedRequest(
        arrived,
        number_of(request.get("input_tokens"), "input_tokens", where, path),
        number_of(request.get("output_tokens"), "output_tokens", where, path),
        str(request.get("request_id") or ""),
        arrived + took,
        str(context.get("session_id") or "") if isinstance(context, dict) else "",
        ids,
    )
