"""Micro-batches whose documents are shared in blocks: who has which tokens, and who sends which keys."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from chakrakit.workloads.blocks import SLACK, Assignment, Terms, assigned, key_exchanges
from chakrakit.workloads.description import Decoder, Workload
from chakrakit.workloads.layers import KeyExchange
from chakrakit.workloads.program import RowShape
from chakrakit.workloads.samples import has_documents, packed_documents


def drawn_shape(workload: Workload, replica: int, number: int) -> RowShape:
    """A micro-batch of a replica that no batcher made: whole sequences, or documents drawn for them."""
    step = workload.step
    if not has_documents(step):
        return RowShape(step.micro_batch, step.seq)
    drawn = np.concatenate(packed_documents(step, replica, number)).astype(np.int64)
    return RowShape(step.micro_batch, step.seq, tuple(drawn.tolist()))


class SharedDocuments:
    """How the documents of micro-batches are shared by the ranks of cp under a plan."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.assignment = lru_cache(None)(self._assignment)
        self._exchanges = lru_cache(None)(self._of_ranks)

    @cached_property
    def terms(self) -> Terms:
        """What the assignment goes by."""
        plan, model = self.workload.plan, self.workload.model
        speeds = np.array(plan.speeds or [1.0] * plan.cp)
        shares = np.array(plan.shares or [1 / plan.cp] * plan.cp)
        causal = isinstance(model, Decoder) and model.causal
        slack = 1.0 if plan.shares else SLACK
        return Terms(speeds / speeds.mean(), shares, plan.key_pairs, slack, causal)

    def parts(self, shapes: tuple[RowShape, ...]) -> list[tuple[RowShape, ...]]:
        """What each rank of cp has of a replica's micro-batches."""
        exchanges = [self._exchanges(shape.attended) for shape in shapes]
        return [
            tuple(
                shape._replace(exchange=of_ranks[place])
                for shape, of_ranks in zip(shapes, exchanges, strict=True)
            )
            for place in range(self.workload.plan.cp)
        ]

    def _of_ranks(self, documents: tuple[int, ...]) -> list[KeyExchange]:
        return key_exchanges(self.assignment(documents))

    def _assignment(self, documents: tuple[int, ...]) -> Assignment:
        plan = self.workload.plan
        return assigned(documents, plan.cp, plan.assignment, plan.block, self.terms)
