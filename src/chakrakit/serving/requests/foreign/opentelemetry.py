"""OpenTelemetry spans of requests to a model, as OTLP writes them in JSON (one document, or one a line).

`resourceSpans` › `scopeSpans` › `spans`, each with startTimeUnixNano, endTimeUnixNano and `attributes`, a
list of key and value. A span counts as a request if it says how many tokens went in and came out:
gen_ai.usage.input_tokens and output_tokens, or by their older names prompt_tokens and completion_tokens.
`gen_ai.conversation.id` or `session.id` is the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chakrakit.errors import FormatError
from chakrakit.serving.requests.foreign.recorded_requests import RecordedRequest, stream_of_recorded
from chakrakit.serving.requests.stream import RequestStream

_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens")
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
)
_SESSION = ("gen_ai.conversation.id", "session.id")


def is_opentelemetry(head: bytes) -> bool:
    """Whether this is JSON with spans by resource."""
    return head.lstrip()[:1] == b"{" and b'"resourceSpans"' in head


def read_opentelemetry(data: bytes, path: str, seed: int) -> RequestStream:
    """The spans that are requests; the others are counted."""
    requests, others = [], 0
    for span in _spans(data, path):
        request = _request(span, path)
        others += request is None
        if request is not None:
            requests.append(request)
    notes = (f"{others:,} spans without counts of tokens were left out",) if others else ()
    return stream_of_recorded(requests, path, notes=notes)


def _spans(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    try:
        documents = [msgspec.json.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        documents = [_decoded(line, path) for line in data.split(b"\n") if line.strip()]
    for document in documents:
        for resource in _list(document, "resourceSpans"):
            for scope in [
                *_list(resource, "scopeSpans"),
                *_list(resource, "instrumentationLibrarySpans"),
            ]:
                yield from (s for s in _list(scope, "spans") if isinstance(s, dict))


def _decoded(line: bytes, path: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"neither JSON nor lines of JSON: {error}", path=path) from None


def _list(value: object, name: str) -> list[Any]:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, list) else []


def _request(span: dict[str, Any], path: str) -> RecordedRequest | None:
    values = {
        str(a.get("key")): next(iter(a["value"].values()), None)
        for a in _list(span, "attributes")
        if isinstance(a, dict) and isinstance(a.get("value"), dict)
    }
    lengths = [
        next((_whole(values[k]) for k in names if k in values), -1) for names in (_INPUT, _OUTPUT)
    ]
    times = [_whole(span.get(k)) for k in ("startTimeUnixNano", "endTimeUnixNano")]
    if min(lengths) < 0:
        return None
    if min(times) < 0:
        raise FormatError(
            "a span with tokens has no startTimeUnixNano or endTimeUnixNano", path=path
        )
    session = next((str(values[k]) for k in _SESSION if values.get(k)), "")
    return RecordedRequest(
        times[0] / 1e9,
        lengths[0],
        lengths[1],
        str(span.get("spanId") or ""),
        times[1] / 1e9,
        session,
    )


def _whole(value: object) -> int:
    """A whole number, which OTLP writes as text; -1 for anything else."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 20 else -1
