"""Stream: which stream some nodes run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chakrakit.arrays import Mask
from chakrakit.errors import ConfigError
from chakrakit.passes.base import Pass, map_bodies, texts_of, where
from chakrakit.patterns import holds
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Stream(Pass):
    """Put nodes whose names match on a stream of their own, where they run in order beside all others.

    `match` is a regular expression, `to` the number of the stream. What waits for data still waits.
    """

    name: ClassVar[str] = "stream"
    preserves: ClassVar[str] = "every node and its data; the order between streams is given up"
    match: str = ""
    to: int = 0

    def __post_init__(self) -> None:
        try:
            holds(self.match)
        except ValueError as error:
            raise ConfigError(
                f"match={self.match!r} is not a regular expression: {error}"
            ) from None
        if not self.match or self.to < 0:
            raise ConfigError("stream: give match, which names nodes, and a stream of 0 or more")

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with those nodes on the stream."""
        if not any(self._chosen(traces.body_at(n)).any() for n in range(traces.body_count)):
            raise ConfigError(
                f"stream: no node's name matches {self.match!r}; `chakra query TRACES 'select distinct name "
                "from nodes'` lists the names"
            )
        return map_bodies(traces, self._moved)

    def _chosen(self, trace: Trace) -> Mask:
        return where(texts_of(trace, "name"), holds(self.match))

    def _moved(self, trace: Trace) -> Trace:
        chosen = self._chosen(trace)
        stream = trace.column("stream", 0).copy()
        stream[chosen] = self.to
        moved = trace.with_columns({"stream": stream})
        e = moved.edges
        parted = (e.ctrl) & (stream[e.src] != stream[e.dst])
        return moved.with_edges(e.where(~parted))

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many nodes of the first body are on the stream now."""
        return {"nodes": int((after.body_at(0).column("stream", 0) == self.to).sum())}
