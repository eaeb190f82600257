"""BLIS' trace (CSV, with a YAML header beside it that is not needed): requests that were sent or generated.

Columns are named; used are `arrival_time_us`, `input_tokens` (`server_input_tokens` where a server counted),
`output_tokens`, `request_id`, `session_id`, `round_index`, `last_chunk_time_us` and `status`. Requests that
failed are left out. In recorded sessions of several rounds a round waits for the one before it; generated
ones have no ends, and their arrivals are taken as they are. Prefixes that groups share are not kept.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Set

from chakrakit.errors import FormatError
from chakrakit.serving.requests.foreign.recorded_requests import (
    RecordedRequest,
    number_of,
    stream_of_recorded,
)
from chakrakit.serving.requests.stream import RequestStream

_NEEDED = ("arrival_time_us", "input_tokens", "output_tokens")


def is_blis_trace(head: bytes) -> bool:
    """Whether the first line names BLIS' columns."""
    names = head.split(b"\n", 1)[0].strip().split(b",")
    return b"last_chunk_time_us" in names and all(name.encode() in names for name in _NEEDED)


def read_blis_trace(data: bytes, path: str, seed: int) -> RequestStream:
    """The requests that ended well."""
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8", "replace"))))
    except csv.Error as error:
        raise FormatError(f"not CSV: {error}", path=path) from None
    well = [row for row in rows if (row.get("status") or "ok") == "ok"]
    notes = [f"{len(rows) - len(well):,} requests that failed were left out"] * (
        len(rows) > len(well)
    )
    if any((row.get("prefix_length") or "0") != "0" for row in well):
        notes.append("prefixes that groups of requests share are not kept")
    rounds = {row.get("session_id") for row in well if (row.get("round_index") or "0") != "0"}
    requests = [_request(row, rounds, f"row {i + 1}", path) for i, row in enumerate(well)]
    return stream_of_recorded(requests, path, notes=tuple(notes))


def _request(
    row: dict[str, str], rounds: Set[str | None], where: str, path: str
) -> RecordedRequest:
    """A request; `rounds` are the sessions that have several."""

    def number(name: str) -> float:
        text = row.get(name) or "0"
        try:
            return number_of(float(text), name, where, path)
        except ValueError:
            raise FormatError(f"{where}: {name} is {text!r:.40}, not a number", path=path) from None

    ended, session = number("last_chunk_time_us"), row.get("session_id") or ""
    return RecordedRequest(
        number("arrival_time_us") / 1e6,
        number("server_input_tokens") or number("input_tokens"),
        number("output_tokens"),
        row.get("request_id") or "",
        ended / 1e6,
        session if ended > 0 and session in rounds else "",
    )
