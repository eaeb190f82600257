"""Arrows on a timeline: dependencies between tracks, messages, and the members of a collective."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.insight.communication.matching import Matched
from chakrakit.insight.rank import RankView
from chakrakit.trace.model import EdgeKind

_ARROWS = (
    EdgeKind.LAUNCH,
    EdgeKind.EVENT,
    EdgeKind.SYNC,
    EdgeKind.TENSOR,
    EdgeKind.DATA,
    EdgeKind.AUTOGRAD,
)


@dataclass(frozen=True, eq=False)
class RankArrows:
    """The points where arrows touch one rank: the row, the arrow's id, and whether it begins or stops there.

    Ids are above 0 and unique over all ranks; an arrow passes its rows in order of start.
    """

    row: I64
    id: I64
    begins: Mask
    stops: Mask


def dependency_arrows(view: RankView, lane: I32, first: int) -> tuple[RankArrows, int]:
    """Arrows for dependencies between lanes of one rank, and the next free id; ids count from `first`.

    Arrows go forward in time: an edge whose target begins before its source is left out.
    """
    edges = view.trace.edges
    crosses = lane[edges.src] != lane[edges.dst]
    drawn = crosses & np.isin(edges.kind, _ARROWS) & view.ran[edges.src] & view.ran[edges.dst]
    drawn &= view.start[edges.src] <= view.start[edges.dst]
    src, dst = edges.src[drawn], edges.dst[drawn]
    ids = first + np.arange(len(src), dtype=np.int64)
    row = np.concatenate([src, dst]).astype(np.int64)
    stops = np.repeat([False, True], len(src))
    return RankArrows(row, np.concatenate([ids, ids]), ~stops, stops), first + len(src)


def communication_arrows(matched: Matched, first: int, drawn: Mask) -> dict[int, RankArrows]:
    """Arrows between ranks, by rank: one through the members of each collective, one for each message.

    An arrow passes members in order of arrival. Calls that are not `drawn` are left out, and so are
    arrows with a single end.
    """
    key = np.where(matched.collective, matched.instance, -1)
    messages = matched.partner >= 0
    low = np.minimum(np.arange(len(matched)), matched.partner)
    count = int(key.max(initial=-1)) + 1
    ids = first + np.where(matched.collective, key, count + np.where(messages, low, 0))
    rows = np.flatnonzero((matched.collective | messages) & drawn)
    _, arrow, ends = np.unique(ids[rows], return_inverse=True, return_counts=True)
    rows = rows[ends[arrow] > 1]
    order = rows[np.lexsort((rows, matched.start[rows], ids[rows]))]
    changes = ids[order[1:]] != ids[order[:-1]]
    begins, stops = (
        (np.r_[True, changes], np.r_[changes, True]) if len(order) else (changes, changes)
    )
    out = {}
    for rank in np.unique(matched.rank[order]).tolist():
        mine = matched.rank[order] == rank
        out[rank] = RankArrows(
            matched.row[order[mine]], ids[order[mine]], begins[mine], stops[mine]
        )
    return out


def joined_arrows(parts: list[RankArrows]) -> RankArrows:
    """Several sets of arrows of one rank as one."""
    return RankArrows(
        *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(RankArrows))
    )
