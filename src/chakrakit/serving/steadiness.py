"""Whether engines keep up with a stream that goes on: a short one ends before its queue has grown."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np

from chakrakit.machines.device import PICO
from chakrakit.serving.plan import EngineLayout
from chakrakit.serving.requests import RequestStream, repeated
from chakrakit.serving.results import ServedRun, ServiceLevel
from chakrakit.serving.session import ServingSession

_ROUNDS = 8
"""Full batches that wait at the beginning: engines that serve those in the middle are full."""
_LASTS = 64
"""Times that a request takes alone after which latencies no longer change much: at 95 % of what an engine can
serve, the first tokens of an 8B model's requests come within 118 ms (p99) over 9 of these times, 414 over 36
and 537 over 144."""
_MOST = 50_000
"""Requests of the longest stream that is tried, unless the given one is longer."""
_SOME = 100
"""Requests that tell how long one takes alone."""
_MS = 1e-9
"""Milliseconds in a picosecond."""


def is_open(session: ServingSession) -> bool:
    """Whether all requests arrive at times of their own, whatever becomes of others."""
    return session.source is None and session.stream.is_open


def smallest_alike(layout: EngineLayout) -> tuple[EngineLayout, int]:
    """The smallest layout of which this one is a number of copies side by side, and that number."""
    if layout.apart:
        copies = math.gcd(layout.prefill, layout.decode)
        fewer = {"prefill": layout.prefill // copies, "decode": layout.decode // copies}
    else:
        copies, fewer = layout.replicas, {"replicas": 1}
    return msgspec.structs.replace(layout, **fewer), copies


def most_requests_per_s(session: ServingSession) -> float | None:
    """Requests a second that engines serve while others wait, which is when they serve most.

    The requests of the stream come so many times over that engines fill again and again, and as fast as
    engines would serve full batches that took no longer than one request alone: faster than they can, and yet
    not at once, which would keep requests of equal lengths in step. None where requests wait for each other.
    """
    if not is_open(session):
        return None
    stream = session.stream
    batch = sum(pool.engines for pool in session.setup.pools) * session.engine.max_requests
    backlog = repeated(stream, -(-min(_ROUNDS * batch, _MOST) // len(stream)))
    gap_ps = replace(session, stream=stream.first(_SOME)).served().alone_ms / batch / _MS
    arrival_ps = np.rint(np.arange(len(backlog)) * gap_ps).astype(np.int64)
    served = replace(session, stream=replace(backlog, arrival_ps=arrival_ps)).served()
    ends = np.sort(served.outcome.requests["finish"]) * PICO
    order = np.arange(len(ends))
    middle = (order >= len(ends) // 4) & (order <= len(ends) * 3 // 4)
    if not np.ptp(ends[middle]):
        return None
    return float(np.polyfit(ends[middle], order[middle], 1)[0])


def requests_per_s(stream: RequestStream) -> float | None:
    """How many come; None where all come at once."""
    seconds = float(np.ptp(stream.arrival_ps)) * PICO
    return (len(stream) - 1) / seconds if seconds else None


def served_on(session: ServingSession, served: ServedRun, level: ServiceLevel) -> ServedRun | None:
    """The stream served as long as it takes to tell, beginning anew at its end; None where it was so long."""
    stream = session.stream
    if not is_open(session) or not np.ptp(stream.arrival_ps):
        return None
    copies = min(-(-_LASTS * served.alone_ms // served.stream_ms), _MOST // len(stream))
    if copies <= 1:
        return None
    return replace(session, stream=repeated(stream, int(copies))).served(level)
