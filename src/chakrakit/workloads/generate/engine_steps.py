"""Traces of the steps that serving engines ran: each engine's iterations, and caches that move between them.

Engines lie one after another on the ranks. A cache that moves is a message from each rank that made a
part of it to each that needs it; it leaves after the step that completed it, and the step that first
uses it waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.workloads.description import Mesh, Plan, Workload
from chakrakit.workloads.generate.inference import CacheMessage, ReplicaIterations
from chakrakit.workloads.generate.programs import RankClass
from chakrakit.workloads.generate.requests import Iteration
from chakrakit.workloads.generate.serving import InferencePrograms, cache_shares, serving_class

FIRST_TAG = 1_000_000
"""Tags of caches begin here, above those of pipelines, which count iterations and stages."""


@dataclass(frozen=True)
class EngineSteps:
    """What one engine ran."""

    plan: Plan
    passes: list[Iteration]


@dataclass(frozen=True)
class CacheMove:
    """A request's cache of `tokens` from one engine's step to another's."""

    request: int
    tokens: int
    source: int
    sent_after: int
    target: int
    used_by: int


class SteppedEngines(InferencePrograms):
    """The programs of engines that share a machine."""

    def __init__(
        self, workload: Workload, engines: Sequence[EngineSteps], moves: Sequence[CacheMove] = ()
    ) -> None:
        super().__init__(workload)
        self.engines, self.moves = list(engines), list(moves)

    @cached_property
    def meshes(self) -> list[Mesh]:
        """Each engine's ranks, after those of the engines before it."""
        firsts = np.cumsum([0, *(e.plan.world for e in self.engines)]).tolist()
        return [Mesh(e.plan, first=first) for e, first in zip(self.engines, firsts, strict=False)]

    @cached_property
    def classes(self) -> list[RankClass]:
        """One class per rank where caches move, else one per stage."""
        return [
            rank_class for number in range(len(self.engines)) for rank_class in self._engine(number)
        ]

    def _engine(self, number: int) -> Iterator[RankClass]:
        engine, mesh = self.engines[number], self.meshes[number]
        if not engine.passes:
            return
        serving = ReplicaIterations(self.workload, engine.plan, mesh, engine.passes, self.book)
        moving = [m for m in self.moves if number in (m.source, m.target)]
        for stage in range(engine.plan.pp):
            at = mesh.ranks_at(stage)
            for ranks in at.reshape(-1, 1) if moving else [at]:
                messages = tuple(self._messages(number, int(ranks[0]), stage, moving))
                name = f"engine {number} rank {int(ranks[0]) + mesh.first}"
                yield serving_class(name, ranks, serving, stage, messages)

    def _messages(
        self, number: int, rank: int, stage: int, moving: Sequence[CacheMove]
    ) -> Iterator[CacheMessage]:
        for move in moving:
            sends = move.source == number
            peer_engine = move.target if sends else move.source
            shares = cache_shares(
                self.workload,
                (self.engines[number].plan, self.engines[peer_engine].plan),
                (self.meshes[number], self.meshes[peer_engine]),
                (rank, stage, 0 if sends else 1),
                move.tokens,
            )
            for peer, size in shares:
                step = move.sent_after if sends else move.used_by
                op = "send" if sends else "recv"
                yield CacheMessage(op, f"rank:{peer}", size, FIRST_TAG + move.request * 2, step)
