"""Inference workloads as traces: one mesh that does everything, or prefill and decode apart.

Apart, every request's cache moves from the prefill ranks that made it to the decode ranks that need
it: layer by layer as the stages of the two overlap, head by head as their tp does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from chakrakit.workloads.description import (
    CompressedAttention,
    Decoder,
    LatentAttention,
    Mesh,
    Plan,
    Workload,
    even_split,
    layer_rows,
)
from chakrakit.workloads.generate.inference import CacheMessage, ReplicaIterations, servings
from chakrakit.workloads.generate.programs import Generated, RankClass, rank_class
from chakrakit.workloads.generate.requests import decodes, prefills, prompts
from chakrakit.workloads.layers import caches_of
from chakrakit.workloads.program import TextTables


class InferencePrograms(Generated):
    """The programs of an inference workload."""

    @cached_property
    def book(self) -> TextTables:
        """Texts of all programs."""
        return self.layout.book

    @cached_property
    def classes(self) -> list[RankClass]:
        """One for each distinct program."""
        if self.workload.disaggregated:
            return _Apart(self.workload, self.book).classes()
        mesh = Mesh(self.workload.plan)
        classes = []
        for serving, data in servings(self.workload, self.workload.plan, mesh, self.book):
            for stage in range(self.workload.plan.pp):
                at = mesh.ranks_at(stage)
                ranks = at[np.isin(mesh.coordinates["dp"][at], data)]
                name = f"stage {stage}" + (
                    f" dp{data[0]}" if len(data) < self.workload.plan.dp else ""
                )
                classes.append(serving_class(name, ranks, serving, stage, ()))
        return sorted(classes, key=lambda c: int(c.ranks[0]))

    @property
    def size(self) -> int:
        """Ranks of all meshes."""
        return sum(len(c.ranks) for c in self.classes)

    @property
    def passes(self) -> int:
        """Iterations of the busiest rank."""
        return max(int(c.program.columns["micro_batch"].max()) + 1 for c in self.classes)

    @property
    def tokens(self) -> int:
        """Tokens that run through the model: of prompts that are cached already, none."""
        step = self.workload.step
        prompt = 0 if step.kind == "decode" else step.seq
        return step.global_batch * (prompt + (0 if step.kind == "prefill" else step.new_tokens))


def serving_class(
    name: str,
    ranks: np.ndarray,
    serving: ReplicaIterations,
    stage: int,
    messages: tuple[CacheMessage, ...],
) -> RankClass:
    """The ranks of a stage of a replica, with the messages they exchange beyond it."""
    program = serving.program(stage, messages)
    layout = serving.layouts[0]
    before = serving.cached_at_start(p.layer for p in layout.pieces[stage] if p.layer >= 0)
    return rank_class(name, ranks, replace(program, held_before=before), layout, serving.mesh)


class _Apart:
    """Prefill ranks first, decode ranks after them. Requests go round the replicas of either."""

    def __init__(self, workload: Workload, book: TextTables) -> None:
        assert workload.disaggregated is not None
        self.workload, self.book = workload, book
        self.plans = (workload.disaggregated.prefill, workload.disaggregated.decode)
        self.meshes = (Mesh(self.plans[0]), Mesh(self.plans[1], first=self.plans[0].world))
        self.lengths = prompts(workload.step, 0, workload.step.global_batch)

    def classes(self) -> list[RankClass]:
        """Every rank by itself: their peers have no pattern to share."""
        return [*self._side(0, "prefill", "send"), *self._side(1, "decode", "recv")]

    def _side(self, side: int, kind: str, op: str) -> Iterator[RankClass]:
        plan, mesh = self.plans[side], self.meshes[side]
        for replica in range(plan.dp):
            mine = list(range(replica, len(self.lengths), plan.dp))
            serving = self._serving(side, kind, mine)
            for stage in range(plan.pp):
                at = mesh.ranks_at(stage)
                for rank in at[mesh.coordinates["dp"][at] == replica].tolist():
                    messages = tuple(self._messages(side, rank, stage, mine, op))
                    name = f"{kind} rank {rank + mesh.first}"
                    yield serving_class(name, np.array([rank]), serving, stage, messages)

    def _serving(self, side: int, kind: str, requests: list[int]) -> ReplicaIterations:
        step = self.workload.step.replace(kind=kind)
        workload = self.workload.replace(step=step)
        if kind == "prefill":
            passes = prefills([self.lengths[r] for r in requests], step.micro_batch)
        else:
            passes = decodes([self.lengths[r] for r in requests], step.new_tokens)
        return ReplicaIterations(workload, self.plans[side], self.meshes[side], passes, self.book)

    def _messages(
        self, side: int, rank: int, stage: int, mine: list[int], op: str
    ) -> Iterator[CacheMessage]:
        """The cache of each of a replica's requests, to or from every rank that shares some of it."""
        for place, request in enumerate(mine):
            iteration = place // self.workload.step.micro_batch if op == "send" else 0
            for peer, size in self._shares(side, rank, stage, request):
                yield CacheMessage(op, f"rank:{peer}", size, request * 2 + 1_000_000, iteration)

    def _shares(self, side: int, rank: int, stage: int, request: int) -> Iterator[tuple[int, int]]:
        """Peers on the other side and the bytes of a request's cache that both hold."""
        plans = (self.plans[side], self.plans[1 - side])
        meshes = (self.meshes[side], self.meshes[1 - side])
        replica = request % plans[1].dp
        return cache_shares(
            self.workload, plans, meshes, (rank, stage, side), self.lengths[request], replica
        )


def cache_shares(
    workload: Workload,
    plans: tuple[Plan, Plan],
    meshes: tuple[Mesh, Mesh],
    place: tuple[int, int, int],
    tokens: int,
    replica: int = 0,
) -> Iterator[tuple[int, int]]:
    """Peers that share a cache of some tokens with a rank, and the bytes that both hold.

    Plans and meshes are the rank's own and the other side's; `place` is its rank, its stage and its side
    (0 sends, 1 receives).
    """
    model, step = workload.model, workload.step
    assert isinstance(model, Decoder)
    (plan, peer_plan), (mesh, peer_mesh), (rank, stage, side) = plans, meshes, place
    tp = int(mesh.coordinates["tp"][rank])
    kinds, rows = layer_rows(model)
    caches = caches_of(model, plan.tp, step)
    for peer_stage in range(peer_plan.pp):
        common = _overlap(model.layers, plan.pp, stage, peer_plan.pp, peer_stage)
        sizes: dict[int, float] = {}
        for layer in common:
            whole = isinstance(kinds[rows[layer]].mixer, LatentAttention | CompressedAttention)
            for peer_tp, part in _tp_shares(plan.tp, tp, peer_plan.tp, whole, side):
                sizes[peer_tp] = sizes.get(peer_tp, 0) + caches[layer].bytes(tokens) / part
        for peer_tp, size in sizes.items():
            where = {"tp": peer_tp, "cp": 0, "dp": replica, "pp": peer_stage}
            peer = int(peer_mesh.rank_of({a: np.array([c]) for a, c in where.items()})[0])
            if int(size):
                yield peer + peer_mesh.first, int(size)


def _overlap(layers: int, stages: int, stage: int, peer_stages: int, peer_stage: int) -> range:
    """Layers that two stages of two pipelines both have."""
    spans = []
    for count, number in ((stages, stage), (peer_stages, peer_stage)):
        split = even_split(layers, count)
        spans.append((sum(split[:number]), sum(split[: number + 1])))
    return range(max(spans[0][0], spans[1][0]), min(spans[0][1], spans[1][1]))


def _tp_shares(
    tp_size: int, tp: int, peer_tp_size: int, whole: bool, side: int
) -> Iterator[tuple[int, int]]:
    """The other side's tp ranks that share heads with this one, and in how many parts its cache goes.

    A latent cache is whole on every tp rank: each decode rank takes it from one prefill rank.
    """
    if whole:
        takers = range(peer_tp_size) if side == 0 else [tp % peer_tp_size]
        yield from ((t, 1) for t in takers if side == 1 or t % tp_size == tp)
    elif tp_size >= peer_tp_size:
        yield tp * peer_tp_size // tp_size, 1
    else:
        times = peer_tp_size // tp_size
        yield from ((tp * times + i, times) for i in range(times))
