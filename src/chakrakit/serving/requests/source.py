"""Sources: objects that make requests while a run goes on, from what has ended so far.

Environments, tool calls, training steps and retries close the loop: what comes next depends on what came
out. A source has one method:

    next(now_s, finished) -> requests      more requests, at the start and whenever some have ended

With `interval_s` it is asked every so many seconds as well, until it says `done = True`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines.device import MOST_SECONDS, PS_PER_S
from chakrakit.serving.requests.stream import (
    Contents,
    RequestStream,
    check_lengths,
    identifiers,
    joined,
    offsets_of,
    rows_of_parents,
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request that a source makes.

    It arrives at `at_s`, by default at once, or `delay_s` after all requests in `after` have ended. Requests
    are known by their numbers, which count on from those of the stream.
    """

    prompt: int
    output: int
    at_s: float = 0.0
    after: Sequence[int] = ()
    delay_s: float = 0.0
    priority: int = 0
    adapter: int = -1
    ids: Sequence[int] = ()
    contents: Sequence[tuple[int, int]] = ()
    """(id, tokens) of the pieces of its prompt."""
    continues: int = -1
    group: int = -1
    deadline_s: float = float("nan")
    model: int = -1
    tenant: int = -1
    """The place in the stream's `tenants` of whom it is for."""
    tag: Any = None
    """Whatever the source wants to know again when the request has ended."""


@dataclass(frozen=True)
class FinishedRequest:
    """A request that has ended; times in seconds."""

    number: int
    arrived_s: float
    first_s: float
    finished_s: float
    generated: int
    """Output tokens that it got, fewer than were asked for where a policy ended it."""
    prompt: int = 0
    """Tokens of its prompt."""
    tag: Any = field(default=None, compare=False)


@runtime_checkable
class Source(Protocol):
    """Anything that is asked for more requests."""

    def next(self, now_s: float, finished: Sequence[FinishedRequest]) -> Iterable[Request]:
        """More requests, or none."""
        ...


class GrowingStream:
    """A stream and the requests that a source added to it."""

    def __init__(self, source: Source, begun: RequestStream | None = None) -> None:
        self.source = source
        self._parts = [] if begun is None else [begun]
        self._tags: dict[int, Any] = {}
        self._count = 0 if begun is None else len(begun)

    def more(self, now_s: float, ended: Sequence[FinishedRequest]) -> RequestStream | None:
        """What the source adds to the stream."""
        finished = [replace(one, tag=self._tags.pop(one.number, None)) for one in ended]
        requests = list(self.source.next(now_s, finished))
        for i, request in enumerate(requests):
            self._check(request)
            if request.tag is not None:
                self._tags[self._count + i] = request.tag
        if not requests:
            return None
        part = _stream(requests)
        self._parts.append(part)
        self._count += len(part)
        return part

    def _check(self, request: object) -> None:
        if not isinstance(request, Request):
            raise ConfigError(f"a source gave {request!r}; it should give Request objects")

    def __len__(self) -> int:
        return self._count

    def stream(self) -> RequestStream:
        """All requests."""
        if not self._parts:
            raise ConfigError("the source gave no requests")
        return joined(self._parts)


def _stream(requests: list[Request]) -> RequestStream:
    where = "a source's requests"
    check_lengths([r.prompt for r in requests], "prompt", where, 1)
    check_lengths([r.output for r in requests], "output", where, 1)
    seconds = np.array([r.delay_s if len(r.after) else r.at_s for r in requests], np.float64)
    if not ((seconds >= 0) & (seconds < MOST_SECONDS)).all():
        raise ConfigError(f"{where}: times are 0 s or more, and below {MOST_SECONDS:,.0f} s")
    deadline = [-1 if np.isnan(r.deadline_s) else round(r.deadline_s * PS_PER_S) for r in requests]

    def column(name: str) -> I64:
        return np.array([getattr(r, name) for r in requests], np.int64)

    return RequestStream(
        arrival_ps=np.rint(seconds * PS_PER_S).astype(np.int64),
        prompt=column("prompt"),
        output=column("output"),
        after=rows_of_parents([list(r.after) or [-1] for r in requests]),
        priority=column("priority"),
        adapter=column("adapter"),
        offsets=offsets_of([len(r.ids) for r in requests]),
        ids=identifiers([i for r in requests for i in r.ids]),
        continues=column("continues"),
        group=column("group"),
        deadline_ps=np.array(deadline, np.int64),
        model=column("model"),
        tenant=column("tenant"),
        contents=Contents.of([r.contents for r in requests]),
    )
