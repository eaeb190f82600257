"""Possible causes of a node's start, and which of them it really waited for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges

TOLERANCE_NS = 1_000
"""Clocks of host and device disagree by less than this; a larger contradiction refutes an edge."""


@dataclass
class EdgeList:
    """Edges gathered piece by piece, with known lags."""

    parts: list[Edges] = field(default_factory=list)

    def add(
        self, kind: EdgeKind, src: ArrayLike, dst: ArrayLike, lag: ArrayLike, form: EdgeForm
    ) -> None:
        """Add edges of one kind and form."""
        source = np.asarray(src, np.int32)
        lags = np.broadcast_to(np.asarray(lag, np.int64), source.shape)
        self.parts.append(Edges.of(source, np.asarray(dst, np.int32), kind, form, lags))

    def edges(self) -> Edges:
        """All edges added so far."""
        return Edges.concat(self.parts)


@dataclass
class Candidates:
    """What each node may have waited for at its start, each with the delay it typically causes.

    A node starts when the last of its causes lets it. The cause whose time plus typical delay comes
    last is taken to be the one that did: its lag becomes the measured one, so that the measured
    start is reproduced. All others keep their typical delay (or the measured one where that is
    shorter, so that no edge contradicts the measurement), and begin to bind when an edit moves them.
    """

    start: I64
    end: I64
    rows: list[tuple[EdgeKind, EdgeForm, I64, I64, I64]] = field(default_factory=list)

    def add(
        self, kind: EdgeKind, form: EdgeForm, src: ArrayLike, dst: ArrayLike, typical: ArrayLike
    ) -> None:
        """Add possible causes of one kind."""
        source, target = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        delay = np.broadcast_to(np.asarray(typical, np.int64), source.shape)
        self.rows.append((kind, form, source, target, delay))

    def decide(self) -> tuple[Edges, Edges]:
        """The edges, and those that the measured times refute (left out, to be reported)."""
        if not self.rows:
            return Edges.empty(), Edges.empty()
        kind = np.concatenate([np.full(len(s), k, np.int8) for k, _, s, _, _ in self.rows])
        form = np.concatenate([np.full(len(s), f, np.int8) for _, f, s, _, _ in self.rows])
        src, dst, typical = (np.concatenate([r[i] for r in self.rows]) for i in (2, 3, 4))
        base = np.where(form == EdgeForm.START_START, self.start[src], self.end[src])
        slack = self.start[dst] - base
        refuted = (slack < -TOLERANCE_NS) & (kind != EdgeKind.STREAM)
        binding = _latest(dst, np.where(refuted, np.iinfo(np.int64).min, base + typical))
        lag = np.where(binding, slack, np.minimum(typical, slack))
        edges = Edges.of(src, dst, kind, form, lag)
        return edges.where(~refuted), edges.where(refuted)


def _latest(group: I64, ready: I64) -> Mask:
    """The entry with the largest `ready` in each group."""
    order = np.lexsort((ready, group))
    last = np.ones(len(order), np.bool_)
    last[:-1] = group[order[1:]] != group[order[:-1]]
    is_latest = np.zeros(len(order), np.bool_)
    is_latest[order[last]] = True
    return is_latest
