"""Requests as recorders list them: sorted by arrival, turns of one session after each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chakrakit.errors import FormatError
from chakrakit.serving.requests.stream import RequestStream, stream_of


@dataclass(frozen=True)
class RecordedRequest:
    """One request: when it arrived and ended, in seconds of any clock, and what it was."""

    arrived: float
    prompt: float
    output: float
    name: str = ""
    ended: float = 0.0
    session: str = ""
    ids: Sequence[int] = ()


def stream_of_recorded(
    requests: list[RecordedRequest], path: str, unit: int = 16, notes: tuple[str, ...] = ()
) -> RequestStream:
    """The stream: arrivals since the first; a turn waits for the one before it and as long as it did then.

    Requests that gave no token are left out and counted.
    """
    served = [r for r in requests if r.output >= 1 and r.prompt >= 1]
    if len(served) < len(requests):
        notes = (*notes, f"{len(requests) - len(served):,} requests without tokens were left out")
    if not served:
        raise FormatError("has no request that gave a token", path=path)
    ordered = sorted(served, key=lambda r: r.arrived)
    first = ordered[0].arrived
    seconds, after, last = list[float](), list[int](), dict[str, int]()
    for number, request in enumerate(ordered):
        before = last.get(request.session, -1) if request.session else -1
        since = ordered[before].ended if before >= 0 else first
        seconds.append(max(request.arrived - since, 0.0))
        after.append(before)
        if request.session:
            last[request.session] = number
    return stream_of(
        seconds,
        [r.prompt for r in ordered],
        [r.output for r in ordered],
        ids=[r.ids for r in ordered],
        where=path,
        after=after,
        unit=unit,
        names=[r.name or str(i) for i, r in enumerate(ordered)],
        notes=notes,
    )


def number_of(value: object, name: str, where: str, path: str) -> float:
    """A number of a record; a FormatError names the field."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise FormatError(f"{where}: {name} is {value!r:.40}, not a number", path=path)
    return float(value)


def object_of(value: object, name: str, where: str, path: str) -> dict[str, object]:
    """An object of a record; a FormatError names the field."""
    if not isinstance(value, dict):
        raise FormatError(f"{where}: {name} is not an object", path=path)
    return value
