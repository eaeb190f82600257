"""Rules across ranks: groups, collectives and messages must agree between those that are here.

Ranks that share a body are compared by body: what is compared are sequences of collectives and channels
of messages, once for each distinct one, so that a folded set costs what its bodies cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import listed
from chakrakit.trace.communication import EQUAL_SIZES, UNKNOWN, Channel
from chakrakit.trace.model import CollectiveType, collective_name
from chakrakit.trace.validation.communication import BodyCommunication, GroupCalls, RanksToCheck
from chakrakit.trace.validation.findings import Findings, printable

_C = CollectiveType


def check_ranks(world: RanksToCheck, findings: Findings) -> None:
    """Applies all rules of this file."""
    used = _groups_in_use(world)
    _check_definitions(world, used, findings)
    missing = {r for g in used for r in world.members(g) or ()}
    for group, ranks in used.items():
        _check_group(world, group, ranks, findings)
    missing |= _check_messages(world, findings)
    missing |= {r for ranks in world.groups.values() for r in ranks}
    missing -= set(world.bindings)
    if missing and not world.alone:
        text = f"{len(missing):,} ranks are not here: {listed(sorted(missing))}; what they do with the others is not checked"  # noqa: E501
        findings.add("ranks-not-recorded", None, text, count=len(missing))


# --- groups -------------------------------------------------------------------------------------


def _groups_in_use(world: RanksToCheck) -> dict[str, dict[int, int]]:
    """Group → rank → the role in which the rank's program calls it."""
    used: dict[str, dict[int, int]] = {g.name: {} for g in world.communication.groups}
    names = list(used)
    for rank, groups in zip(world.bindings, world.communication.group_of, strict=True):
        for role, group in zip(world.calls(rank).roles, groups, strict=True):
            used[names[group]][rank] = role
    return used


def _check_definitions(
    world: RanksToCheck, used: Mapping[str, Mapping[int, int]], findings: Findings
) -> None:
    """Groups are defined, and used by their members."""
    undefined = [g for g in used if world.members(g) is None]
    if undefined and not world.groups:
        examples = ", ".join(repr(printable(g)) for g in undefined[:8])
        more = f" and {len(undefined) - 8:,} more" if len(undefined) > 8 else ""
        text = f"collectives use the groups {examples}{more}, and no file defines groups; put groups.json or prefix.json beside the traces"  # noqa: E501
        findings.add("no-groups", None, text, count=len(undefined))
        return
    for group in undefined:
        _report_group(world, "unknown-group", group, used[group], "which is not defined", findings)
    for group in used:
        members = world.members(group)
        outside = {r: n for r, n in used[group].items() if r not in set(members or ())}
        if outside and members is not None:
            text = f"which has the ranks {listed(sorted(members))}" if members else "which is empty"
            _report_group(world, "not-a-member", group, outside, text, findings)


def _report_group(
    world: RanksToCheck,
    code: str,
    group: str,
    ranks: Mapping[int, int],
    text: str,
    findings: Findings,
) -> None:
    """A finding for each rank that uses the group, at the first collective that does."""
    for rank, role in ranks.items():
        calls = world.in_role(rank, role)
        _add_at(
            world,
            findings,
            code=code,
            rank=rank,
            row=int(calls.row[0]),
            node=int(calls.id[0]),
            text=f"issues collectives in group {printable(group)!r}, {text}",
            count=len(calls),
        )


def _add_at(
    world: RanksToCheck,
    findings: Findings,
    *,
    code: str,
    rank: int,
    row: int,
    node: int,
    text: str,
    count: int,
) -> None:
    """A finding at a node, whose name is looked up only if the finding is listed."""
    name = world.body(rank).name(row) if findings.room(code, rank) else None
    findings.add(code, rank, text, node=node, name=name, count=count)


# --- collectives --------------------------------------------------------------------------------


def _check_group(
    world: RanksToCheck, group: str, ranks: Mapping[int, int], findings: Findings
) -> None:
    """All members that are here issue the same collectives. Those unlike most are reported."""
    members = world.members(group)
    if members is None:
        return
    present = [r for r in members if r in world.bindings]
    alike: dict[bytes, list[int]] = defaultdict(list)
    calls: dict[bytes, GroupCalls] = {}
    for rank in present:
        rank_calls = world.in_role(rank, ranks.get(rank))
        alike[rank_calls.key].append(rank)
        calls.setdefault(rank_calls.key, rank_calls)
    for key, same in alike.items():
        _check_numbers(world, group, same, calls[key], findings)
    usual = max(alike, key=lambda key: len(alike[key]), default=b"")
    for key, same in alike.items():
        if key != usual:
            pair = _Pair(world, group, same, alike[usual][0], calls[key], calls[usual])
            pair.check(findings)


def _check_numbers(
    world: RanksToCheck, group: str, ranks: list[int], calls: GroupCalls, findings: Findings
) -> None:
    if not calls.numbered:
        return
    again = np.flatnonzero(calls.seq[1:] == calls.seq[:-1]) + 1
    if len(again):
        at = int(again[0])
        text = f"uses number (comm_seq) {calls.seq[at]} of group {printable(group)!r} twice{_others(ranks)}"
        _add_at(
            world,
            findings,
            code="collective-seq",
            rank=ranks[0],
            row=int(calls.row[at]),
            node=int(calls.id[at]),
            text=text,
            count=len(again),
        )


@dataclass
class _Pair:
    """Two members of a group that do not issue the same: some ranks, and one of the majority."""

    world: RanksToCheck
    group: str
    ranks: list[int]
    usual_rank: int
    mine: GroupCalls
    theirs: GroupCalls

    def check(self, findings: Findings) -> None:
        """Says what differs, at the first place where it does."""
        if self.mine.numbered and self.theirs.numbered:
            my_numbers, their_numbers = np.unique(self.mine.seq), np.unique(self.theirs.seq)
            if not np.array_equal(my_numbers, their_numbers):
                return self._missing_number(my_numbers, their_numbers, findings)
        if len(self.mine) != len(self.theirs):
            return self._missing(findings)
        types = _both_known(self.mine.kind, self.theirs.kind) & (self.mine.kind != self.theirs.kind)
        if types.any():
            return self._types(types, findings)
        return self._sizes(findings)

    def _missing_number(self, my_numbers: I64, their_numbers: I64, findings: Findings) -> None:
        apart = np.setxor1d(my_numbers, their_numbers)
        number = int(apart[0])
        who = self.ranks[0] if number in their_numbers else self.usual_rank
        text = (
            f"rank {who} has no collective number {number} of group {printable(self.group)!r}, "
            f"the other has (ranks {self.ranks[0]} and {self.usual_rank}){_others(self.ranks)}"
        )
        self._report("collective-missing", None, text, len(apart), findings)

    def _missing(self, findings: Findings) -> None:
        n = min(len(self.mine), len(self.theirs))
        differ = np.flatnonzero(_differ(self.mine, self.theirs, n))
        at = int(differ[0]) if len(differ) else n
        place = at if at < len(self.mine) else None
        text = (
            f"issues {len(self.mine):,} collectives in group {printable(self.group)!r}, "
            f"rank {self.usual_rank} {len(self.theirs):,}; "
            f"they first differ at number {at}{_others(self.ranks)}"
        )
        count = abs(len(self.mine) - len(self.theirs))
        self._report("collective-missing", place, text, count, findings)

    def _types(self, differ: Mask, findings: Findings) -> None:
        at = int(np.flatnonzero(differ)[0])
        order = _same_in_another_order(self.mine, self.theirs)
        text = (
            f"its collective number {at} of group {printable(self.group)!r} is "
            f"{_call_text(self.mine, at)}, that of rank {self.usual_rank} "
            f"{_call_text(self.theirs, at)}{_others(self.ranks)}"
        )
        code = "collective-order" if order else "collective-type"
        self._report(code, at, text, int(differ.sum()), findings)

    def _sizes(self, findings: Findings) -> None:
        both_known = _both_known(self.mine.size, self.theirs.size)
        differ = both_known & (self.mine.size != self.theirs.size)
        strict = differ & np.isin(self.mine.kind, [int(c) for c in EQUAL_SIZES])
        if strict.any() and _same_in_another_order(self.mine, self.theirs):
            return self._size("collective-order", strict, findings)
        self._size("collective-size", strict, findings)
        free = self.mine.split | self.theirs.split
        self._size("alltoall-size", differ & (self.mine.kind == _C.ALL_TO_ALL) & ~free, findings)
        return None

    def _size(self, code: str, differ: Mask, findings: Findings) -> None:
        if not differ.any():
            return
        at = int(np.flatnonzero(differ)[0])
        text = (
            f"its collective number {at} of group {printable(self.group)!r}, an "
            f"{collective_name(int(self.mine.kind[at]))}, has {self.mine.size[at]:,} bytes, that of "
            f"rank {self.usual_rank} {self.theirs.size[at]:,}{_others(self.ranks)}"
        )
        self._report(code, at, text, int(differ.sum()), findings)

    def _report(self, code: str, at: int | None, text: str, count: int, findings: Findings) -> None:
        if at is None:
            findings.add(code, self.ranks[0], text, count=count)
            return
        row, node = int(self.mine.row[at]), int(self.mine.id[at])
        _add_at(
            self.world,
            findings,
            code=code,
            rank=self.ranks[0],
            row=row,
            node=node,
            text=text,
            count=count,
        )


def _both_known(a: I64, b: I64) -> Mask:
    mask: Mask = (a != UNKNOWN) & (b != UNKNOWN)
    return mask


def _differ(a: GroupCalls, b: GroupCalls, n: int) -> Mask:
    kinds = _both_known(a.kind[:n], b.kind[:n]) & (a.kind[:n] != b.kind[:n])
    sizes = _both_known(a.size[:n], b.size[:n]) & (a.size[:n] != b.size[:n])
    differ: Mask = kinds | sizes
    return differ


def _same_in_another_order(a: GroupCalls, b: GroupCalls) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(_sorted(a), _sorted(b), strict=True))


def _sorted(calls: GroupCalls) -> tuple[I64, I64]:
    order = np.lexsort((calls.size, calls.kind))
    return calls.kind[order], calls.size[order]


def _call_text(calls: GroupCalls, at: int) -> str:
    size = int(calls.size[at])
    return collective_name(int(calls.kind[at])) + (f" of {size:,} bytes" if size != UNKNOWN else "")


def _others(ranks: list[int]) -> str:
    return f"; the same for {len(ranks) - 1:,} more ranks" if len(ranks) > 1 else ""


# --- messages -----------------------------------------------------------------------------------


def _check_messages(world: RanksToCheck, findings: Findings) -> set[int]:
    """Sends have their receives. Gives the ranks that messages name."""
    ends: dict[tuple[int, int, int], dict[bool, tuple[int, Channel]]] = defaultdict(dict)
    peers: set[int] = set()
    for rank, binding in world.bindings.items():
        _check_own_ends(world, rank, world.body(rank), findings)
        for channel in world.calls(rank).channels:
            peer = binding.peers.get(channel.peer, channel.peer)
            if _peer_is_there(world, rank, peer, channel, findings):
                peers.add(peer)
                key = (rank, peer) if channel.is_send else (peer, rank)
                ends[*key, channel.tag][channel.is_send] = rank, channel
    tags: dict[tuple[int, int], list[int]] = defaultdict(list)
    for src, dst, tag in ends:
        tags[src, dst].append(tag)
    for (src, dst, _), pair in ends.items():
        if src in world.bindings and dst in world.bindings:
            _check_channel(world, src, dst, pair, tags[src, dst], findings)
    return peers


def _check_own_ends(
    world: RanksToCheck, rank: int, body: BodyCommunication, findings: Findings
) -> None:
    peers = world.bindings[rank].peers
    for recorded, rows, ids, is_send in body.own_ends:
        if peers.get(recorded, recorded) != rank:
            end = "comm_src" if is_send else "comm_dst"
            text = f"{end} is {peers.get(recorded, recorded)} in the trace of rank {rank}"
            _add_at(
                world,
                findings,
                code="wrong-end",
                rank=rank,
                row=int(rows[0]),
                node=int(ids[0]),
                text=text,
                count=len(rows),
            )


def _peer_is_there(
    world: RanksToCheck, rank: int, peer: int, channel: Channel, findings: Findings
) -> bool:
    row, node = int(channel.row[0]), int(channel.id[0])
    add = partial(_add_at, world, findings, rank=rank, row=row, node=node, count=len(channel.row))
    if peer == rank:
        add(code="self-send", text=f"rank {rank} is both ends of this message")
    if peer < world.size or not world.groups:
        return True
    text = f"the other end is rank {peer}, and the last rank is {world.size - 1}"
    add(code="peer-out-of-range", text=text)
    return False


def _check_channel(
    world: RanksToCheck,
    src: int,
    dst: int,
    pair: Mapping[bool, tuple[int, Channel]],
    tags: list[int],
    findings: Findings,
) -> None:
    """The sends and receives of one (source, destination, tag), matched in order."""
    sends = pair[True][1] if True in pair else None
    recvs = pair[False][1] if False in pair else None
    send_count, recv_count = (0 if c is None else len(c.row) for c in (sends, recvs))
    for code, rank, channel, counterparts in (
        ("unmatched-send", src, sends, recv_count),
        ("unmatched-recv", dst, recvs, send_count),
    ):
        if channel is not None and len(channel.row) > counterparts:
            peer = dst if channel.is_send else src
            text = _unmatched_text(rank, peer, channel, counterparts, tags)
            _add_at(
                world,
                findings,
                code=code,
                rank=rank,
                row=int(channel.row[counterparts]),
                node=int(channel.id[counterparts]),
                text=text,
                count=len(channel.row) - counterparts,
            )
    if sends is not None and recvs is not None:
        _check_sizes(world, src, dst, sends, recvs, findings)


def _unmatched_text(
    rank: int, peer: int, channel: Channel, counterparts: int, tags: list[int]
) -> str:
    verb, counter = ("sends", "receives") if channel.is_send else ("receives", "sends")
    toward = "to" if channel.is_send else "from"
    further = [str(t) for t in tags[:5] if t != channel.tag] if not counterparts else []
    hint = f"; between them there are also tags {', '.join(further)}" if further else ""
    return (
        f"rank {rank} {verb} {len(channel.row):,} messages with tag {channel.tag} {toward} rank "
        f"{peer}, which {counter} {counterparts:,} of them{hint}"
    )


def _check_sizes(
    world: RanksToCheck, src: int, dst: int, sends: Channel, recvs: Channel, findings: Findings
) -> None:
    n = min(len(sends.row), len(recvs.row))
    a, b = sends.size[:n], recvs.size[:n]
    differ = np.flatnonzero(_both_known(a, b) & (a != b))
    if len(differ):
        at = int(differ[0])
        text = (
            f"sends {a[at]:,} bytes with tag {sends.tag} to rank {dst}, whose receive is for "
            f"{b[at]:,} (node {recvs.id[at]})"
        )
        _add_at(
            world,
            findings,
            code="message-size",
            rank=src,
            row=int(sends.row[at]),
            node=int(sends.id[at]),
            text=text,
            count=len(differ),
        )
