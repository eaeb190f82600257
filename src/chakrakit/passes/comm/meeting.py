"""Meeting: what waits for what on all ranks at once, with the calls that meet as one.

Bodies stand for all ranks that run them, so a way that exists between ranks exists here too; the other way
round need not hold. What is found free of circles here never deadlocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.errors import TraceError
from chakrakit.passes.comm.channels import I64, Channel, channels_of
from chakrakit.passes.comm.waits import highest_before, waits
from chakrakit.trace.graph import Graph
from chakrakit.trace.traceset import TraceSet


class Meeting:
    """Starts (2 × row) and ends (2 × row + 1) of all bodies' rows, calls that meet joined."""

    def __init__(self, traces: TraceSet, channels: Sequence[Channel]) -> None:
        sizes = [len(traces.body_at(i)) for i in range(traces.body_count)]
        self.offset = np.r_[0, np.cumsum(sizes)].astype(np.int64)
        self.rows = int(self.offset[-1])
        parts = [waits(traces.body_at(i)) for i in range(traces.body_count)]
        self.src, self.dst = (
            np.concatenate([p[end] + 2 * o for p, o in zip(parts, self.offset, strict=False)])
            for end in (0, 1)
        )
        self.turn = np.concatenate([p[2] for p in parts])
        self.joined = np.arange(self.rows)
        into = np.arange(self.rows)
        for channel in channels:
            for side in channel.sides[1:]:
                into[self.offset[side.body] + side.rows] = self._rows(channel)
        self._join(into)

    def _rows(self, channel: Channel) -> I64:
        """The rows that stand for a channel's calls."""
        side = channel.sides[0]
        rows: I64 = self.joined[self.offset[side.body] + side.rows]
        return rows

    def _join(self, into: I64) -> None:
        self.joined = into[self.joined]
        self.src, self.dst = (2 * into[e // 2] + e % 2 for e in (self.src, self.dst))

    def fuse(self, channel: Channel, buckets: Sequence[I64]) -> None:
        """Makes each bucket of calls one call, so that what is asked next knows."""
        into, rows = np.arange(self.rows), self._rows(channel)
        for bucket in buckets:
            into[rows[bucket]] = rows[bucket[-1]]
        self._join(into)
        outside = ~(self.turn & (self.src // 2 == self.dst // 2))
        self.src, self.dst, self.turn = (a[outside] for a in (self.src, self.dst, self.turn))

    def held_back(self, channel: Channel, chosen: I64) -> I64:
        """For each chosen call, 1 + the last chosen call whose result it waits for; 0 for none.

        Waiting only for its turn does not count: two calls may become one if nothing but their
        turns stands between them.
        """
        rows = self._rows(channel)[chosen]
        number = np.zeros(self.rows, np.int64)
        number[rows] = np.arange(1, len(chosen) + 1)
        from_call, to_call = number[self.src // 2], number[self.dst // 2]
        stays = ~(self.turn & (from_call > 0) & (to_call > 0))
        src, dst, marks = self.src[stays], self.dst[stays], from_call[stays]
        return highest_before(self.rows, src, dst, marks)[rows]

    def has_circle(self) -> bool:
        """Whether some work would wait for itself."""
        own = np.arange(self.rows)
        graph = Graph(2 * self.rows, np.r_[self.src, 2 * own], np.r_[self.dst, 2 * own + 1])
        return not graph.is_acyclic


def check_runs(before: TraceSet, after: TraceSet, what: str) -> None:
    """A TraceError if work that could run before waits for itself now."""
    if _has_circle(after) and not _has_circle(before):
        raise TraceError(
            f"{what} would make work wait for itself, on one rank or across ranks; choose fewer "
            "calls (groups, types, phases)"
        )


def _has_circle(traces: TraceSet) -> bool:
    return Meeting(traces, channels_of(traces)).has_circle()
