"""Who makes others wait: ranks that come late, links and groups slower than their like."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.communication.matching import Matched, calls_of, match_calls
from chakrakit.insight.communication.summary import full_size
from chakrakit.insight.rank import Table, ms, rank_views
from chakrakit.results import Result
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import Run


class Straggler(Result, msgspec.Struct):
    """A rank by the wait it causes: to collectives it came last to, and by messages sent late."""

    rank: int
    caused_wait_ns: int
    waited_ns: int
    times_last: int
    collectives: int
    lateness_ns: float
    """How far behind the first rank it came, on average."""


class SlowLink(Result, msgspec.Struct):
    """A group or pair whose transfers take longer than the median of the same type and size."""

    where: str
    transfers: int
    slowdown: float
    excess_ns: int


class Stragglers(Result, msgspec.Struct):
    """Ranks and links, worst first."""

    ranks: list[Straggler]
    links: list[SlowLink]

    def table(self) -> Table:
        """One row per rank."""
        head = ("rank", "caused wait ms", "waited ms", "times last", "of", "mean lateness ms")
        rows = [
            (
                s.rank,
                ms(s.caused_wait_ns),
                ms(s.waited_ns),
                s.times_last,
                s.collectives,
                ms(s.lateness_ns),
            )
            for s in self.ranks
        ]
        return Table.of("who waits for whom", head, rows)

    def link_table(self) -> Table:
        """One row per slow group or pair."""
        rows = [(s.where, s.transfers, round(s.slowdown, 3), ms(s.excess_ns)) for s in self.links]
        return Table.of("slow links", ("where", "transfers", "× its like", "excess ms"), rows)


def stragglers_of(matched: Matched) -> Stragglers:
    """From matched calls."""
    return Stragglers(_ranks(matched), _links(matched))


def _ranks(matched: Matched) -> list[Straggler]:
    ranks, code = np.unique(matched.rank, return_inverse=True)
    if not len(ranks):
        return []
    n = len(ranks)
    receives = (matched.type == NodeType.COMM_RECV_NODE) & (matched.partner >= 0)
    culprit = np.where(receives, matched.partner, matched.last)
    caused = np.bincount(code[culprit], matched.wait.astype(np.float64), n)
    waited = np.bincount(code, matched.wait.astype(np.float64), n)
    shared = matched.collective & (matched.members > 1)
    last = shared & (matched.last == np.arange(len(matched))) & (matched.arrival > matched.first)
    calls = np.bincount(code[shared], minlength=n)
    late = np.bincount(code[shared], (matched.start - matched.first)[shared].astype(np.float64), n)
    times = np.bincount(code[last], minlength=n)
    out = [
        Straggler(
            int(ranks[i]),
            int(caused[i]),
            int(waited[i]),
            int(times[i]),
            int(calls[i]),
            float(late[i] / calls[i]) if calls[i] else 0.0,
        )
        for i in range(n)
    ]
    return sorted(out, key=lambda s: (-s.caused_wait_ns, s.rank))


def _links(matched: Matched, least: float = 1.05) -> list[SlowLink]:
    """Transfers compared with others of the same type, size and number of ranks."""
    ends = matched.collective & (matched.last == np.arange(len(matched)))
    ends |= (matched.type == NodeType.COMM_RECV_NODE) & (matched.partner >= 0)
    rows = np.flatnonzero(ends & (matched.size > 0) & _complete(matched))
    if not len(rows):
        return []
    took = matched.transfer[rows].astype(np.float64)
    size = full_size(matched.kind, matched.size, matched.members)[rows]
    like = np.unique(
        np.stack([matched.type[rows], matched.kind[rows], size, matched.members[rows]]),
        axis=1,
        return_inverse=True,
    )[1].reshape(-1)
    places = np.where(
        matched.collective[rows],
        matched.group_code[rows],
        -1 - matched.src[rows] * (1 << 31) - matched.dst[rows],
    )
    usual = _medians(like, took)
    compared = _several(like, places)
    rows, places = rows[compared], places[compared]
    took, usual = took[compared], usual[compared]
    out = []
    for place in np.unique(places).tolist():
        mine = np.flatnonzero(places == place)
        excess = float((took[mine] - usual[mine]).sum())
        base = float(usual[mine].sum())
        if base > 0 and excess / base > least - 1:
            out.append(
                SlowLink(
                    _where(matched, int(rows[mine[0]])), len(mine), 1 + excess / base, int(excess)
                )
            )
    return sorted(out, key=lambda link: -link.excess_ns)


def _complete(matched: Matched) -> Mask:
    """Calls of which every rank was recorded: only there transfer is known apart from waiting."""
    if not matched.collective.any():
        return ~matched.collective
    here = np.bincount(matched.instance[matched.collective])[np.maximum(matched.instance, 0)]
    whole: Mask = ~matched.collective | ((here == matched.members) & (here > 1))
    return whole


def _several(like: I64, places: I64) -> Mask:
    """Transfers that have their like at another place."""
    pairs = np.unique(np.stack([like, places]), axis=1)
    count = np.bincount(pairs[0])
    return np.asarray(count[like] > 1)


def _medians(like: I64, took: F64) -> F64:
    """For each entry the median of its like."""
    order = np.lexsort((took, like))
    first = np.flatnonzero(np.r_[True, like[order][1:] != like[order][:-1]])
    sizes = np.diff(np.r_[first, len(like)])
    values = took[order]
    middle = (values[first + (sizes - 1) // 2] + values[first + sizes // 2]) / 2
    out = np.empty(len(like))
    out[order] = np.repeat(middle, sizes)
    return out


def _where(matched: Matched, row: int) -> str:
    if matched.collective[row]:
        return f"group {matched.group_names[matched.group_code[row]] or '(all)'}"
    return f"rank {matched.src[row]} → {matched.dst[row]}"


def stragglers(run: Run) -> Stragglers:
    """Ranks and links by the wait they cause."""
    calls = [calls_of(view) for view in rank_views(run)]
    return stragglers_of(match_calls(calls, run.groups, run.world_size))
