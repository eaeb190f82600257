"""Meeting: what waits for what on all ranks at once. Calls that meet start one by one and end together.

Bodies stand for all ranks that run them, so a path that exists between ranks exists here too; the reverse
need not hold. Traces without a cycle in this graph never deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.passes.comm.channels import BodyChannel, channels_of
from chakrakit.passes.comm.rewrite import highest_before, waits
from chakrakit.trace.model import Graph
from chakrakit.trace.sets import TraceSet


class Meeting:
    """Events of all bodies' rows, starts (2 × row) and ends (2 × row + 1), and what each waits for."""

    def __init__(self, traces: TraceSet, channels: Sequence[BodyChannel]) -> None:
        parts = [waits(traces.body_at(i)) for i in range(traces.body_count)]
        sizes = [len(traces.body_at(i)) for i in range(traces.body_count)]
        self.offset = np.r_[0, np.cumsum(sizes)].astype(np.int64)
        self.events = 2 * int(self.offset[-1])
        starts = np.arange(0, self.events, 2)
        shift = np.repeat(2 * self.offset[:-1], [len(p[0]) for p in parts])
        self.src = np.r_[np.concatenate([p[0] for p in parts]) + shift, starts]
        self.dst = np.r_[np.concatenate([p[1] for p in parts]) + shift, starts + 1]
        self.turn = np.r_[np.concatenate([p[2] for p in parts]), np.zeros(len(starts), np.bool_)]
        self.now = np.arange(self.events)
        """For each event, the event that it has been merged into."""
        into = np.arange(self.events)
        for channel in channels:
            for rows in self._sides(channel):
                into[2 * rows + 1] = 2 * next(self._sides(channel)) + 1
        self._join(into)

    def _sides(self, channel: BodyChannel) -> Iterator[I64]:
        """Yields the calls of each side, as rows numbered over all bodies."""
        for side in channel.sides:
            yield self.offset[side.body] + side.rows

    def _join(self, into: I64) -> None:
        self.now = into[self.now]
        self.src, self.dst = into[self.src], into[self.dst]

    def fuse(self, channel: BodyChannel, buckets: Sequence[I64]) -> None:
        """Merges each bucket of calls into one call, for later questions to this graph."""
        sizes = [len(b) for b in buckets]
        calls = np.concatenate([np.zeros(0, np.int64), *buckets])
        last = np.repeat(np.array([b[-1] for b in buckets], np.int64), sizes)
        number = self._numbered(channel, calls, np.repeat(np.arange(1, len(buckets) + 1), sizes))
        inside = self.turn & (number[self.src] > 0) & (number[self.src] == number[self.dst])
        self.src, self.dst, self.turn = (a[~inside] for a in (self.src, self.dst, self.turn))
        into = np.arange(self.events)
        for rows in self._sides(channel):
            for end in (0, 1):
                into[self.now[2 * rows[calls] + end]] = self.now[2 * rows[last] + end]
        self._join(into)

    def _numbered(self, channel: BodyChannel, calls: I64, numbers: I64) -> I64:
        """Returns the number of each event of these calls; 0 for all other events."""
        number_of_event = np.zeros(self.events, np.int64)
        for rows in self._sides(channel):
            for end in (0, 1):
                number_of_event[self.now[2 * rows[calls] + end]] = numbers
        return number_of_event

    def held_back(self, channel: BodyChannel, calls: I64) -> I64:
        """Returns for each call 1 + the number of the last call whose result it waits for; 0 for none.

        Waiting only for its turn does not count: two calls may become one if nothing but their
        turns stands between them.
        """
        number = self._numbered(channel, calls, np.arange(1, len(calls) + 1))
        from_call, to_call = number[self.src], number[self.dst]
        turns = self.turn & (from_call > 0) & (to_call > 0)
        marks = np.where(from_call == to_call, 0, from_call)  # a call's own start does not count
        highest = highest_before(self.events, self.src[~turns], self.dst[~turns], marks[~turns])
        return highest[self.now[2 * next(self._sides(channel))[calls] + 1]]

    def has_circle(self) -> bool:
        """Whether some work would wait for itself, directly or not."""
        return not Graph(self.events, self.src, self.dst).is_acyclic


def check_runs(before: TraceSet, after: TraceSet, action: str) -> None:
    """Raises a TraceError if work that could run before would now wait for itself."""
    if _has_circle(after) and not _has_circle(before):
        raise TraceError(
            f"{action} would make work wait for itself, on one rank or across ranks; choose fewer "
            "calls (groups, types, phases)"
        )


def _has_circle(traces: TraceSet) -> bool:
    return Meeting(traces, channels_of(traces)).has_circle()
