"""Tenants of one service: an engine for each, or one engine that takes them in a fair order."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView


class OwnPartition:
    """Every task has an engine of its own."""

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int:
        """The engine of the request's task."""
        return engines[request.adapter].number


class FairShare:
    """Waiting requests by their turn within their own task: everyone's first, then everyone's second."""

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """Requests and tokens of the next batch."""
        turns: dict[int, int] = {}
        order = []
        for request in waiting:
            turns[request.adapter] = turns.get(request.adapter, 0) + 1
            order.append((turns[request.adapter], request.number))
        return [(r.number, 2) for r in running] + [(number, 2) for _, number in sorted(order)]
