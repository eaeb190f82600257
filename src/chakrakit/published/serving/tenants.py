"""Tenants of one service: an engine for each, or one engine that takes them in a fair order."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView
from chakrakit.serving.requests import RequestStream


class OwnPartition:
    """Every task has an engine of its own."""

    def __init__(self, stream: RequestStream) -> None:
        self.task = stream.adapter

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int:
        """The engine of the request's task."""
        return engines[int(self.task[request.number])].number


class FairShare:
    """Waiting requests by their turn within their own task: everyone's first, then everyone's second."""

    def __init__(self, stream: RequestStream) -> None:
        self.task = stream.adapter

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """Requests and tokens of the next batch."""
        turns: dict[int, int] = {}
        order = []
        for request in waiting:
            task = int(self.task[request.number])
            turns[task] = turns.get(task, 0) + 1
            order.append((turns[task], request.number))
        return [(r.number, 2) for r in running] + [(number, 2) for _, number in sorted(order)]
