"""What a linked rank would do after an edit: its rows scheduled again with other durations."""

from __future__ import annotations

from chakrakit.sources.pytorch.linking.rank import Rank
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.timing import schedule


def plan(
    rank: Rank, without: EdgeKind | None = None, **durations: float
) -> dict[str, tuple[float, float]]:
    """Name → (start, end) in µs after setting some rows' durations; optionally without a kind."""
    own = rank.own_ns.copy()
    edges = rank.edges if without is None else rank.edges.without(without)
    for row in range(len(rank.line)):
        if rank.names[row] in durations:
            own[row] = durations[rank.names[row]] * 1000
    timed = schedule(len(rank.line), edges, own)
    return {
        rank.names[r]: (timed.start[r] / 1000, timed.end[r] / 1000) for r in range(len(rank.line))
    }


def kinds(rank: Rank, kind: EdgeKind) -> list[tuple[str, str]]:
    """The names of both ends of every edge of a kind."""
    at = rank.edges.kind == kind
    return [
        (rank.names[a], rank.names[b])
        for a, b in zip(rank.edges.src[at].tolist(), rank.edges.dst[at].tolist(), strict=True)
    ]
