"""Culprits: the ranks, links and stages that slow a job down or stop it; and how fast each rank computes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.insight.rank import RankView, RowKind
from chakrakit.insight.step_times import RankStep
from chakrakit.results import Result

CulpritKind = Literal[
    "slow-rank",
    "slow-link",
    "slow-stage",
    "slow-replica",
    "slow-operation",
    "sequence-imbalance",
    "garbage-collection",
    "hang",
    "missing-rank",
    "dead-rank",
    "order-mismatch",
    "size-mismatch",
    "type-mismatch",
    "held-back-clock",
    "float32-products",
    "unfused-attention",
    "slow-operator",
]
"""What is wrong: something is slow, or a collective can never end."""


class Culprit(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One cause of a slow or hanging job. Fields that do not apply are None; results list the worst first."""

    kind: CulpritKind
    rank: int | None = None
    link: str | None = None
    """A link as the machine names it, or `SRC-DST` in ranks where no machine is known."""
    stage: int | None = None
    """The stage of a pipeline."""
    collective: str | None = None
    """The collective it was seen in: name and number within its group."""
    since_step: int | None = None
    """The first step that shows it; None where steps are not known."""
    factor: float | None = None
    """How many times longer than its peers' the work, the transfer or the step takes."""
    detail: str = ""
    """The finding in words: what it costs, and what the step would be without it."""


class RankPace(msgspec.Struct, frozen=True, eq=False):
    """How long one rank computes in every step, without waiting for others."""

    rank: int
    step: I64
    """Numbers of the steps, ascending."""
    start_ns: I64
    """When each step began."""
    compute_ns: F64
    work: bytes
    """A digest of the rank's operations; ranks with equal digests can be compared."""
    by_name: F64 = msgspec.field(default_factory=lambda: np.zeros(0))
    """Compute time of the whole run by name of operation, names ascending."""


def pace_of(view: RankView, steps: Sequence[RankStep]) -> RankPace:
    """How long one rank computes in every step."""
    rows = np.flatnonzero((view.kind == RowKind.COMPUTE) & ~view.on_host)
    begins = np.array([s.start_ns for s in steps], np.int64)
    order = np.argsort(begins, kind="stable")
    work, by_name = _work(view, rows)
    if not len(steps):
        return RankPace(view.rank, begins, begins, np.zeros(0), work, by_name)
    place = np.searchsorted(begins[order], view.start[rows], "right") - 1
    inside = place >= 0
    spent: F64 = np.zeros(len(steps))
    np.add.at(spent, place[inside], view.duration[rows[inside]])
    numbers = np.array([s.step for s in steps], np.int64)[order]
    return RankPace(view.rank, numbers, begins[order], spent, work, by_name)


def _work(view: RankView, rows: I64) -> tuple[bytes, F64]:
    """A digest of the names of these rows and of how often each occurs; and the time of each name."""
    codes, texts = view.names
    used, name, counts = np.unique(codes[rows], return_inverse=True, return_counts=True)
    spent = np.zeros(len(used))
    np.add.at(spent, name, view.duration[rows])
    names = [texts[c] for c in used.tolist()]
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    operations = [(names[i], int(counts[i])) for i in order.tolist()]
    return blake2b(repr(operations).encode(), digest_size=16).digest(), spent[order]
