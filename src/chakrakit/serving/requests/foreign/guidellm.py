"""GuideLLM's report: JSON with `benchmarks`, each with `requests` by outcome.

Of every benchmark the successful requests are read: `info.timings.request_start` and `request_end` in
seconds, `prompt_tokens` and `output_tokens`. Benchmarks of one report follow each other as they did.
"""

from __future__ import annotations

from typing import Any

from chakrakit.configuration import decode_json
from chakrakit.errors import FormatError
from chakrakit.serving.requests.foreign.recorded_requests import (
    RecordedRequest,
    number_of,
    object_of,
    stream_of_recorded,
)
from chakrakit.serving.requests.stream import RequestStream


def is_guidellm(head: bytes) -> bool:
    """Whether this is an object with benchmarks whose scheduler or requests GuideLLM describes."""
    return (
        head.lstrip()[:1] == b"{"
        and b'"benchmarks"' in head
        and (b"generative" in head or b'"scheduler_state"' in head or b"guidellm" in head.lower())
    )


def read_guidellm(data: bytes, path: str, seed: int) -> RequestStream:
    """The successful requests of all benchmarks."""
    report = decode_json(data, dict[str, Any], path, "a report of GuideLLM")
    benchmarks = report.get("benchmarks")
    if not isinstance(benchmarks, list):
        raise FormatError("`benchmarks` is not a list", path=path)
    requests, failed = [], 0
    for number, benchmark in enumerate(benchmarks):
        where = f"benchmarks[{number}]"
        outcomes = object_of(
            object_of(benchmark, "it", where, path).get("requests"), "requests", where, path
        )
        rows = outcomes.get("successful")
        for place, row in enumerate(rows if isinstance(rows, list) else []):
            requests.append(_request(row, f"{where}.requests.successful[{place}]", path))
        failed += sum(
            len(o) for k in ("incomplete", "errored") if isinstance(o := outcomes.get(k), list)
        )
    notes = (f"{failed:,} requests that did not succeed were left out",) if failed else ()
    return stream_of_recorded(requests, path, notes=notes)


def _request(row: object, where: str, path: str) -> RecordedRequest:
    request = object_of(row, "it", where, path)
    info = object_of(request.get("info") or request.get("scheduler_info"), "info", where, path)
    timings = object_of(info.get("timings"), "timings", where, path)
    start, end = (
        number_of(timings.get(k), k, where, path) for k in ("request_start", "request_end")
    )
    lengths = [
        number_of(request.get(k), k, where, path) for k in ("prompt_tokens", "output_tokens")
    ]
    return RecordedRequest(start, lengths[0], lengths[1], str(request.get("request_id") or ""), end)
