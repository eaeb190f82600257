"""Who makes others wait: ranks that come late, and links and groups slower than others of their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.communication.matching import Alike, Matched, calls_per_instance, match_calls
from chakrakit.insight.communication.summary import full_size
from chakrakit.insight.rank import Table, ms
from chakrakit.results import Result
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import Run


class Straggler(Result, msgspec.Struct):
    """How long others waited for a rank: in collectives that it came to last, and for late messages.

    A moment in which a rank waits in several calls counts once, for the one that began first.
    """

    rank: int
    caused_wait_ns: int
    waited_ns: int
    times_last: int
    collectives: int
    lateness_ns: float
    """How far behind the first rank it came to a collective, on average."""


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
    """Stragglers and slow links from matched calls."""
    return Stragglers(_ranks(matched), _links(matched))


def _ranks(matched: Matched) -> list[Straggler]:
    ranks, code = np.unique(matched.rank, return_inverse=True)
    if not len(ranks):
        return []
    n = len(ranks)
    waited = np.bincount(code, matched.added_wait.astype(np.float64), n)
    shared = matched.collective & (matched.members > 1)
    calls = np.bincount(code[shared], minlength=n)
    late = np.bincount(code[shared], (matched.start - matched.first)[shared].astype(np.float64), n)
    blame = _blame(matched)
    out = []
    for i, first in enumerate(ranks.tolist()):
        mean = float(late[i] / calls[i]) if calls[i] else 0.0
        for rank in matched.ranks_like(first):
            caused, times = blame.get(rank, (0, 0))
            out.append(Straggler(rank, caused, int(waited[i]), times, int(calls[i]), mean))
    return sorted(out, key=lambda s: (-s.caused_wait_ns, s.rank))


def _blame(matched: Matched) -> dict[int, tuple[int, int]]:
    """For each rank, how long others waited for it, and how many collectives it came to last.

    Ranks that came last together share what the others waited for them.
    """
    late = matched.collective & (matched.members > 1) & (matched.arrival > matched.first)
    if matched.alike is not None:
        return _blame_alike(matched, matched.alike, late)
    ranks, code = np.unique(matched.rank, return_inverse=True)
    n, added = len(ranks), matched.added_wait.astype(np.float64)
    paired = np.flatnonzero(matched.paired)
    caused = np.bincount(code[matched.partner[paired]], added[paired], n)
    calls = np.flatnonzero(matched.collective)
    number = matched.instance[calls]
    coming = calls[matched.start[calls] == matched.arrival[calls]]
    instances = int(number.max(initial=-1)) + 1
    together = np.bincount(matched.instance[coming], minlength=instances)
    wait = np.bincount(number, added[calls], instances) / np.maximum(together, 1)
    caused = caused + np.bincount(code[coming], wait[matched.instance[coming]], n)
    times = np.bincount(code[coming[late[coming]]], minlength=n)
    blame = zip(np.rint(caused).astype(np.int64).tolist(), times.tolist(), strict=True)
    return dict(zip(ranks.tolist(), blame, strict=True))


def _blame_alike(matched: Matched, alike: Alike, late: Mask) -> dict[int, tuple[int, int]]:
    """As `_blame`, where ranks and groups stand for others: each of those groups has its own last rank."""
    caused: dict[int, float] = {}
    times: Counter[int] = Counter()
    for comers in _last_comers(matched, alike, late):
        for code in alike.groups_like(comers.group):
            together = alike.coming(code, comers.parts)
            for rank in together:
                caused[rank] = caused.get(rank, 0.0) + comers.wait / len(together)
                times[rank] += comers.often
    rows = np.flatnonzero(matched.paired)
    peer_end = np.where(matched.type == NodeType.COMM_RECV_NODE, matched.src, matched.dst)
    for mine in _of_each(matched.rank[rows] * (1 << 31) + peer_end[rows]):
        row = rows[mine[0]]
        wait = int(matched.added_wait[rows[mine]].sum())
        for peer in alike.moved(int(matched.rank[row]), peer_end[[row]]).reshape(-1).tolist():
            caused[peer] = caused.get(peer, 0.0) + wait
    return {rank: (round(wait), times[rank]) for rank, wait in caused.items()}


class _LastComers(NamedTuple):
    """The parts that came last to collectives of a group, how long the others waited, and how often."""

    group: int
    parts: I64
    wait: int
    often: int


def _last_comers(matched: Matched, alike: Alike, late: Mask) -> list[_LastComers]:
    """Waits summed by group and by the parts that came last to it together."""
    rows = np.flatnonzero(matched.collective)
    number = matched.instance[rows]
    wait = np.bincount(number, (matched.added_wait * matched.weight)[rows].astype(np.float64))
    often = np.bincount(number, late[rows]) > 0
    coming = rows[matched.start[rows] == matched.arrival[rows]]
    coming = coming[np.lexsort((alike.part[coming], matched.instance[coming]))]
    count = np.bincount(matched.instance[coming]) if len(coming) else np.zeros(0, np.int64)
    first = np.cumsum(count) - count
    comers = []
    for size in np.unique(count[count > 0]).tolist():
        these = np.flatnonzero(count == size)
        calls = coming[first[these][:, None] + np.arange(size)]
        group, parts = matched.group_code[calls[:, 0]], alike.part[calls]
        number = group
        for column in parts.T:  # far cheaper than np.unique of whole rows
            number = np.unique(number * (alike.part.max() + 1) + column, return_inverse=True)[1]
        for mine in _of_each(number):
            waited, times = int(wait[these[mine]].sum()), int(often[these[mine]].sum())
            comers.append(_LastComers(int(group[mine[0]]), parts[mine[0]], waited, times))
    return comers


def _links(matched: Matched, least: float = 1.05) -> list[SlowLink]:
    """Groups and pairs whose transfers take longer than others of the same type, size and number of ranks."""
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
    copies = matched.copies[rows]
    usual = _medians(like, took, copies)
    compared = _several(like, places, copies)
    rows, places = rows[compared], places[compared]
    took, usual = took[compared], usual[compared]
    out: dict[int, list[tuple[int, SlowLink]]] = {}
    seen: Counter[int] = Counter()
    for mine in _of_each(places):
        row = int(rows[mine[0]])
        family = int(matched.members[row]) if matched.collective[row] else 0
        seen[family] += int(matched.copies[row])
        excess = float((took[mine] - usual[mine]).sum())
        base = float(usual[mine].sum())
        if base > 0 and excess / base > least - 1:
            for place, where in _where(matched, row):
                link = SlowLink(where, len(mine), 1 + excess / base, int(excess))
                out.setdefault(family, []).append((place, link))
    # Where half of all are slow, that is how such transfers are, as with traffic one way: no link's fault.
    slow = [e for family, like in out.items() if 2 * len(like) < max(seen[family], 3) for e in like]
    slow.sort(key=lambda entry: (-entry[1].excess_ns, entry[0]))
    return [link for _, link in slow]


def _of_each(values: I64) -> list[I64]:
    """The entries of each distinct value, by value."""
    order = np.argsort(values, kind="stable")
    heads = np.flatnonzero(values[order][1:] != values[order][:-1]) + 1
    return np.split(order, heads) if len(order) else []


def _complete(matched: Matched) -> Mask:
    """Calls of which every rank was recorded: only there can transfer be told from waiting."""
    collective = matched.collective
    recorded = calls_per_instance(matched.instance[collective], matched.weight[collective])
    recorded = recorded[np.maximum(matched.instance, 0)]
    whole: Mask = ~collective | ((recorded == matched.members) & (recorded > 1))
    return whole


def _several(like: I64, places: I64, copies: I64) -> Mask:
    """Which transfers can be compared: others of the same kind took place elsewhere."""
    pairs, first = np.unique(np.stack([like, places]), axis=1, return_index=True)
    count = np.bincount(pairs[0], copies[first])
    return np.asarray(count[like] > 1)


def _medians(like: I64, took: F64, copies: I64) -> F64:
    """For each entry the median over its kind, every entry counted as often as it has copies."""
    order = np.lexsort((took, like))
    first = np.flatnonzero(np.r_[True, like[order][1:] != like[order][:-1]])
    sizes = np.diff(np.r_[first, len(like)])
    values, upto = took[order], np.cumsum(copies[order])
    before = np.r_[0, upto][first]
    total = np.add.reduceat(copies[order], first)
    low = np.searchsorted(upto, before + (total - 1) // 2, "right")
    high = np.searchsorted(upto, before + total // 2, "right")
    out = np.empty(len(like))
    out[order] = np.repeat((values[low] + values[high]) / 2, sizes)
    return out


def _where(matched: Matched, row: int) -> Iterator[tuple[int, str]]:
    """The places (group or pair) of a transfer and of those it stands for, as a number and in words."""
    if matched.collective[row]:
        for code in matched.groups_like(int(matched.group_code[row])):
            yield code, f"group {matched.group_names[code] or '(all)'}"
        return
    ends = matched.ends_like(int(matched.rank[row]), matched.src[[row]], matched.dst[[row]])
    for src, dst in zip(*(e.tolist() for e in ends), strict=True):
        yield -1 - src * (1 << 31) - dst, f"rank {src} → {dst}"


def stragglers(run: Run) -> Stragglers:
    """Ranks and links by the wait they cause."""
    return stragglers_of(match_calls(run))
