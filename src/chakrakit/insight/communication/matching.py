"""Communication of all ranks matched with the times of the run: who came when, and who waited for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.insight.rank import RankView, RowKind, rank_view
from chakrakit.trace.communication import Calls, Classes, Communication, Matching, match
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import Run


@dataclass(frozen=True, eq=False)
class Alike:
    """Ranks and groups that do the same at the same times; the lowest of each class stands for all of it.

    Ranks of one class exchange messages with their peers in the same order. Groups of one class have equally
    many members of each class of ranks in each role.
    """

    communication: Communication
    classes: Classes
    part: I64
    """For each call: one number for the class and the role of its rank."""

    def _place(self, rank: int) -> int:
        return self.communication.place[rank]

    def _class(self, rank: int) -> int:
        return int(self.classes.rank[self._place(rank)])

    def stands_for(self, rank: int) -> int:
        """The rank whose calls stand for those of `rank`."""
        return self.communication.ranks[int(self.classes.first[self._class(rank)])]

    def ranks_like(self, rank: int) -> list[int]:
        """The ranks that a rank stands for, ascending."""
        like = self.classes.ranks_of(self._class(rank))
        return [self.communication.ranks[i] for i in like.tolist()]

    def groups_like(self, code: int) -> list[int]:
        """The groups that a group stands for."""
        codes: list[int] = self.classes.groups_of(int(self.classes.group[code])).tolist()
        return codes

    def moved(self, rank: int, ends: I64) -> I64:
        """Translates peers of a rank into the peers of each rank of its class: one row per rank."""
        table = self._ends_of(self._class(rank))
        order = np.argsort(table[0], kind="stable")
        sorted_ends = table[0][order]
        place = np.minimum(np.searchsorted(sorted_ends, ends), len(sorted_ends) - 1)
        return np.where(sorted_ends[place] == ends, table[:, order[place]], ends)

    def _ends_of(self, c: int) -> I64:
        """A table with one row per rank of a class: the rank itself, then its peers."""
        if c not in self._tables:
            like = self.classes.ranks_of(c).tolist()
            ranks = np.array([self.communication.ranks[j] for j in like], np.int64)
            peers = np.stack([self.communication.peers(j) for j in like])
            self._tables[c] = np.column_stack([ranks, peers])
        return self._tables[c]

    @cached_property
    def _tables(self) -> dict[int, I64]:
        return {}

    def _parts(self, code: int) -> tuple[I64, I64]:
        """The places of a group's callers, and each caller's part (class and role as one number)."""
        ranks, roles = self.communication.groups[code].callers
        return ranks, self.classes.rank[ranks] * self.communication.roles + roles

    def coming(self, code: int, parts: I64) -> list[int]:
        """The members of a group that have one of these parts, ascending."""
        ranks, theirs = self._parts(code)
        # Several classes may come at the same time.
        members = np.flatnonzero((theirs[:, None] == parts).any(1))
        return [self.communication.ranks[place] for place in np.sort(ranks[members]).tolist()]

    def last_of(self, code: int, parts: I64) -> int:
        """The highest rank among the members of a group that have one of these parts."""
        return self.coming(code, parts)[-1]

    def meeting(self, rank: int, group: int, part: int, parts: I64) -> tuple[int, I64, I64]:
        """The group of this class in which `rank` has this part, the group's ranks, and the part of each.

        The part of each member is returned as its place in `parts`.
        """
        place = self._place(rank)
        for code in self.groups_like(group):
            ranks, theirs = self._parts(code)
            if ((ranks == place) & (theirs == part)).any():
                break
        order = np.argsort(parts)
        at = order[np.searchsorted(parts[order], theirs)]
        return code, np.array(self.communication.ranks, np.int64)[ranks], at


@dataclass(frozen=True, eq=False)
class RankCalls:
    """A rank's calls that ran, in the order of their starts, as the run timed them."""

    rank: int
    calls: Calls
    """All calls of its program."""
    at: I64
    """The places in `calls` of those that ran."""
    out_size: I64
    start: I64
    end: I64
    exposed: I64
    """How long each call ran while the rank's device computed nothing and no call before it still ran."""


def calls_of(view: RankView, calls: Calls) -> RankCalls:
    """The calls of one rank with their times; `calls` are those of its body."""
    at = np.flatnonzero((view.ran & view.is_comm)[calls.row])
    at = at[np.lexsort((calls.id[at], view.start[calls.row[at]]))]
    rows = calls.row[at]
    start, end = view.start[rows], view.end[rows]
    alone = uncovered_from(start, end)
    return RankCalls(
        view.rank,
        calls,
        at,
        view.trace.column("out_size", -1)[rows].astype(np.int64),
        start,
        end,
        end - alone - view.busy(RowKind.COMPUTE).share_of(alone, end),
    )


def uncovered_from(start: I64, end: I64) -> I64:
    """From when on no earlier one of these intervals, which ascend by start, covers each; else its end.

    What lies behind adds up to the time in which any of them lasts: calls of one rank overlap.
    """
    before = np.maximum.accumulate(np.concatenate([start[:1], end[:-1]]))
    return np.minimum(np.maximum(start, before), end)


class PeerCalls(NamedTuple):
    """The calls that meet in one call: the other end of a message, or all members of a collective."""

    call: int
    """The entry of the call itself, or of the one that stands for it."""
    group: int
    ranks: I64
    calls: I64
    """The entry of each rank's call, or of the one that stands for it."""


@dataclass(frozen=True, eq=False)
class Matched:
    """All calls as one array per fact, and which calls belong together.

    Collectives: `instance` is the number of the collective a call belongs to (-1 for messages);
    `arrival` when its last rank came, `last` the call of that rank. Messages: `partner` is the other
    end's call (-1: not recorded). `wait` is how long a call waited for others: from its own start
    to the last arrival, or to the start of the other end.
    """

    rank: I64
    row: I64
    type: I64
    kind: I64
    size: I64
    out_size: I64
    group_code: I64
    """The group of a collective, or the first group like it, by its place in `group_names`."""
    group_names: Sequence[str]
    seq: I64
    src: I64
    dst: I64
    start: I64
    end: I64
    exposed: I64
    instance: I64
    partner: I64
    first: I64
    arrival: I64
    last: I64
    members: I64
    """How many ranks take part: the size of the group, or the number recorded where that is larger."""
    weight: I64
    """How many calls of its collective each call stands for, itself included."""
    copies: I64
    """How many collectives or messages the one that each call belongs to stands for, itself included."""
    alike: Alike | None = None
    """Ranks and groups that stand for others; None where every rank's calls are here."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def collective(self) -> Mask:
        """Calls of collectives."""
        return np.asarray(self.type == NodeType.COMM_COLL_NODE)

    @property
    def paired(self) -> Mask:
        """Messages whose other end is here."""
        return np.asarray(~self.collective & (self.partner >= 0))

    @cached_property
    def wait(self) -> I64:
        """How long each call waited for peers, never longer than it lasted."""
        upto = np.where(self.collective, self.arrival, self.start)
        upto[self.paired] = self.start[self.partner[self.paired]]
        # Who ended before the last came did not wait for it: broadcasts, buffered sends, clocks that differ.
        upto = np.where(upto > self.end, self.start, upto)
        return np.maximum(upto - self.start, 0)

    @cached_property
    def added_wait(self) -> I64:
        """How long each call waited while no call of its rank that began before it still did.

        Collectives that are under way at once wait for the same late rank: these add up to the time in which
        their rank waits, `wait` does not.
        """
        order = np.lexsort((self.start, self.rank))
        first = np.flatnonzero(np.diff(self.rank[order], prepend=-1))
        added = np.zeros(len(self), np.int64)
        for mine in np.split(order, first[1:]):
            upto = self.start[mine] + self.wait[mine]
            added[mine] = upto - uncovered_from(self.start[mine], upto)
        return added

    def looked_at(self, rank: int) -> int:
        """The rank whose calls stand for those of this one."""
        return rank if self.alike is None else self.alike.stands_for(rank)

    def groups_like(self, code: int) -> list[int]:
        """The codes of all groups that a group stands for."""
        return [code] if self.alike is None else self.alike.groups_like(code)

    def ranks_like(self, rank: int) -> list[int]:
        """The ranks that a rank stands for."""
        return [rank] if self.alike is None else self.alike.ranks_like(rank)

    def ends_like(self, rank: int, src: I64, dst: I64) -> tuple[I64, I64]:
        """Senders and receivers of a rank's messages, repeated for every rank that it stands for."""
        if self.alike is None:
            return src, dst
        return self.alike.moved(rank, src).reshape(-1), self.alike.moved(rank, dst).reshape(-1)

    @cached_property
    def _by_instance(self) -> tuple[I64, I64]:
        """Calls of collectives in order of their instance, and where each instance begins."""
        rows = np.flatnonzero(self.collective)
        order = rows[np.argsort(self.instance[rows], kind="stable")]
        counts = np.bincount(self.instance[rows]) if len(rows) else np.zeros(0, np.int64)
        return order, np.r_[0, np.cumsum(counts)]

    def calls_of_instance(self, instance: int) -> I64:
        """The calls of a collective that are here."""
        order, first = self._by_instance
        return order[first[instance] : first[instance + 1]]

    def coming_last(self, instance: int) -> I64:
        """The calls of a collective that came last; several if they came at the same time."""
        calls = self.calls_of_instance(instance)
        last_calls: I64 = calls[self.start[calls] == self.arrival[calls]]
        return last_calls

    def last_rank(self, call: int, code: int) -> int:
        """The rank that came last to a collective, in the group of that code."""
        if self.alike is None:
            return int(self.rank[self.last[call]])
        coming = self.coming_last(int(self.instance[call]))
        return self.alike.last_of(code, self.alike.part[coming])

    def meeting(self, rank: int, row: int) -> PeerCalls | None:
        """The calls that meet in a rank's call; None for a row that is not a call."""
        entries = np.flatnonzero((self.rank == self.looked_at(rank)) & (self.row == row))
        if not len(entries):
            return None
        call = int(entries[0])
        code = int(self.group_code[call])
        if self.collective[call]:
            calls = self.calls_of_instance(int(self.instance[call]))
            if self.alike is not None:
                part = self.alike.part[calls]
                code, ranks, at = self.alike.meeting(rank, code, int(self.alike.part[call]), part)
                return PeerCalls(call, code, ranks, calls[at])
        else:
            calls = self.partner[[call]]
            calls = calls[calls >= 0]
            if self.alike is not None and len(calls):
                end = (self.src if self.type[call] == NodeType.COMM_RECV_NODE else self.dst)[[call]]
                place = self.ranks_like(int(self.rank[call])).index(rank)
                return PeerCalls(
                    call, code, self.alike.moved(int(self.rank[call]), end)[place], calls
                )
        return PeerCalls(call, code, self.rank[calls], calls)

    @cached_property
    def transfer(self) -> I64:
        """How long each call lasted without its waiting."""
        return self.end - self.start - self.wait


class AllCalls:
    """The calls of a run's ranks; those that several ranks make at the same times are kept once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._timed: dict[int, RankCalls] = {}

    def add_view(self, view: RankView) -> RankCalls:
        """Adds the calls of the rank that the view shows, and returns them."""
        timed = calls_of(view, self._run.calls_at(self._run.bindings[view.rank].body))
        self.add(view.rank, timed)
        return timed

    def add(self, rank: int, timed: RankCalls) -> None:
        """Adds a rank's calls; they may be those of a rank with the same program and times."""
        self._run.keep_calls(self._run.bindings[rank].body, timed.calls)
        self._timed[rank] = timed

    def matched(self) -> Matched:
        """All calls matched across ranks; afterwards this object is empty."""
        run = (
            self._run
            if len(self._timed) == len(self._run)
            else self._run.select_ranks(list(self._timed))
        )
        timed, self._timed = [self._timed[rank] for rank in run.ranks], {}
        communication, world = run.communication, range(run.world_size)
        group_sizes = [len(run.groups.ranks_of(g.name, world) or ()) for g in communication.groups]
        classes = None
        if len(set(map(id, timed))) < len(timed):
            classes = communication.classes([id(t) for t in timed], group_sizes)
        matching = match(communication, classes)
        firsts = [timed[i] for i in matching.classes.first.tolist()]
        return _timed(matching, firsts, np.array([*group_sizes, 0], np.int64), classes is not None)


def match_calls(run: Run, folds: Iterable[Sequence[int]] | None = None) -> Matched:
    """The matched calls of all ranks; of each of `folds`, only the first rank is read."""
    calls = AllCalls(run)
    for like in [(rank,) for rank in run.ranks] if folds is None else folds:
        timed = calls.add_view(rank_view(run, like[0]))
        for rank in like[1:]:
            calls.add(rank, timed)
    return calls.matched()


def _timed(
    matching: Matching, parts: Sequence[RankCalls], group_sizes: I64, folded: bool
) -> Matched:
    """Matched calls with their times; `group_sizes` is the number of ranks of each group."""
    none = np.zeros(0, np.int64)
    at = np.concatenate([*(o + p.at for o, p in zip(matching.offset, parts, strict=False)), none])
    place = np.full(int(matching.offset[-1]) + 1, -1, np.int64)
    place[at] = np.arange(len(at))
    instance, group = matching.instance[at], matching.group[at]
    collective = instance >= 0
    instance[collective] = np.unique(instance[collective], return_inverse=True)[1]
    start, end, exposed, out_size = (
        np.concatenate([*(getattr(p, name) for p in parts), none])
        for name in ("start", "end", "exposed", "out_size")
    )
    communication, firsts = matching.communication, matching.classes.first.tolist()
    ends = [communication.ends(i) for i in firsts]
    ranks = np.array([communication.ranks[i] for i in firsts], np.int64)
    weight = matching.weight[at] if folded else np.broadcast_to(np.int64(1), len(at))
    return Matched(
        rank=np.repeat(ranks, [len(p.at) for p in parts]),
        **{
            name: matching.column(column)[at]
            for name, column in (
                ("row", "row"),
                ("type", "type"),
                ("kind", "kind"),
                ("size", "bytes"),
            )
        },
        seq=matching.column("number")[at],
        src=np.concatenate([*(e[0] for e in ends), none])[at],
        dst=np.concatenate([*(e[1] for e in ends), none])[at],
        out_size=out_size,
        start=start,
        end=end,
        exposed=exposed,
        group_code=group,
        group_names=[g.name for g in communication.groups],
        instance=instance,
        partner=place[matching.partner[at]],
        members=_members(group_sizes[group], instance, weight),
        weight=weight,
        copies=matching.copies[at] if folded else weight,
        alike=Alike(communication, matching.classes, matching.part[at]) if folded else None,
        **_arrivals(instance, start, matching.highest[at] if folded else None),
    )


def _arrivals(instance: I64, start: I64, highest: I64 | None) -> dict[str, I64]:
    """For each call, when the first and the last call of its collective began, and the last call itself.

    Of several calls that came last at the same time, the last is the one of the highest rank.
    """
    first, arrival, last = start.copy(), start.copy(), np.arange(len(start))
    rows = np.flatnonzero(instance >= 0)
    if len(rows):
        number = instance[rows]
        later = rows if highest is None else highest[rows]
        order = rows[np.lexsort((later, start[rows], number))]
        ends = np.flatnonzero(np.r_[instance[order[1:]] != instance[order[:-1]], True])
        begins = np.r_[0, ends[:-1] + 1]
        arrival[rows] = start[order[ends]][number]
        first[rows] = start[order[begins]][number]
        last[rows] = order[ends][number]
    return {"first": first, "arrival": arrival, "last": last}


def _members(group_size: I64, instance: I64, weight: I64) -> I64:
    """How many ranks take part in each call's collective; a message has two."""
    collective = instance >= 0
    recorded = calls_per_instance(instance[collective], weight[collective])
    return np.where(collective, np.maximum(group_size, recorded[np.maximum(instance, 0)]), 2)


def calls_per_instance(instance: I64, weight: I64) -> I64:
    """How many ranks' calls of each collective were recorded."""
    if not len(instance):
        return np.zeros(1, np.int64)
    return np.bincount(instance, weight.astype(np.float64)).astype(np.int64)
