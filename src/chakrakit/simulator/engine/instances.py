"""Instances: every collective and message of the classes, matched, with the plans its copies run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I32, I64
from chakrakit.errors import ConfigError, TraceError
from chakrakit.simulator.collectives import (
    ALGORITHMS,
    COLLECTIVES,
    Algorithms,
    CollectiveSteps,
    Shape,
    data_bytes,
    direct_all_to_all,
    estimate,
    grid_of,
)
from chakrakit.simulator.engine.classes import Classes
from chakrakit.simulator.engine.membership import Group, Membership
from chakrakit.simulator.engine.plans import TransferPlans
from chakrakit.simulator.engine.policies import CollectivePolicy
from chakrakit.trace.model import Trace, collective_name

MESSAGE = "message"


class FoldRefusedError(Exception):
    """The classes do not hold up; the ranks must be simulated one by one."""


class Call(NamedTuple):
    """A collective to plan: what it is, how large, from where, and its row in each class's body.

    `algorithm` is what the trace asks for, "" where it leaves the choice.
    """

    collective: str
    size: int
    root: int
    rows: dict[int, int]
    algorithm: str


@dataclass
class Instances:
    """Growing columns, an entry an instance; `of_row` gives the instance of each simulated row."""

    of_row: I32
    needed: list[int] = field(default_factory=list)
    jobs: list[I64] = field(default_factory=list)
    what: list[tuple[str, str, int]] = field(default_factory=list)
    """Collective (or message), group name, sequence number."""
    size: list[int] = field(default_factory=list)
    group_class: list[int] = field(default_factory=list)
    algorithm: list[str] = field(default_factory=list)
    shape: list[Shape | None] = field(default_factory=list)
    plain: list[I64] = field(default_factory=list)
    """Rows of collectives with a single member, which are local work."""

    def add(
        self,
        what: tuple[str, str, int],
        size: int,
        needed: int,
        jobs: I64,
        group_class: int,
        algorithm: str,
        shape: Shape | None,
    ) -> int:
        """One more instance; returns its number."""
        self.needed.append(needed)
        self.jobs.append(jobs)
        self.what.append(what)
        self.size.append(size)
        self.group_class.append(group_class)
        self.algorithm.append(algorithm)
        self.shape.append(shape)
        return len(self.needed) - 1


Custom = Callable[[str, int, int], CollectiveSteps | None]
"""Asked for (collective, members, size): a custom schedule, or None for the built-in choice."""
Fixed = Callable[[str, int, int], float | None]
"""Asked for (collective, members, size): a measured time in seconds, or None for a simulated one."""


class Matcher:
    """Builds the instances of a set of classes. `offset[c]` is the first simulated row of class c."""

    def __init__(
        self,
        membership: Membership,
        classes: Classes,
        book: TransferPlans,
        shape_of: list[Shape | None],
        device_of: I64,
        algorithms: Algorithms,
        custom: Custom | None = None,
        fixed: Fixed | None = None,
        empty: bool = False,
        policy: CollectivePolicy | None = None,
    ) -> None:
        self.m, self.classes, self.book = membership, classes, book
        self.shape_of, self.device_of = shape_of, device_of
        self.algorithms, self.custom, self.fixed, self.empty = algorithms, custom, fixed, empty
        self.policy = policy
        sizes = [len(membership.programs[membership.body(int(i))]) for i in classes.first]
        self.offset = np.r_[0, np.cumsum(sizes)].astype(np.int64)
        self.out = Instances(np.full(int(self.offset[-1]), -1, np.int32))

    def match(self) -> Instances:
        """All of them: collectives by group, then messages by class."""
        for number in range(int(self.classes.group.max(initial=-1)) + 1):
            self._collectives(number)
        self._all_messages()
        return self.out

    # --- collectives --------------------------------------------------------------------------

    def _collectives(self, number: int) -> None:
        copies = self.classes.groups_of(number)
        group = self.m.groups[int(copies[0])]
        parts = self._participants(group)
        rows = {
            seq: [self._row(p, s) for p, s in zip(parts, found, strict=True)]
            for seq, found in self._sequences(group, parts).items()
        }
        if len(group.members) == 1:
            self.out.plain.append(np.array([r for part in rows.values() for r in part], np.int64))
            return
        planner = _Planner(self, number, copies, group)
        for seq, found in rows.items():
            call = self._call(group, seq, parts, found)
            jobs, name = planner.plan(call)
            what = (call.collective, group.name, seq)
            instance = self.out.add(
                what, call.size, len(found), jobs, number, name, self.shape_of[int(copies[0])]
            )
            self.out.of_row[found] = instance

    def _participants(self, group: Group) -> list[tuple[int, int]]:
        """Each class in each role once, in the group's order."""
        here = group.present >= 0
        pairs = zip(
            self.classes.rank[group.present[here]].tolist(), group.role[here].tolist(), strict=True
        )
        return list(dict.fromkeys(pairs))

    def _program(self, class_number: int) -> int:
        return self.m.body(int(self.classes.first[class_number]))

    def _calls_in_role(self, part: tuple[int, int]) -> I64:
        calls = self.m.programs[self._program(part[0])].calls
        role = self.m.role_names[part[1]]
        return np.array([i for i, r in enumerate(calls.role) if r == role], np.int64)

    def _sequences(self, group: Group, parts: list[tuple[int, int]]) -> dict[int, list[int]]:
        """For each sequence number, the call of every participant."""
        found: dict[int, list[int]] = {}
        for k, part in enumerate(parts):
            calls = self.m.programs[self._program(part[0])].calls
            for i in self._calls_in_role(part).tolist():
                entry = found.setdefault(int(calls.seq[i]), [])
                if len(entry) != k:
                    self._refuse_uneven(group, int(calls.seq[i]), parts, len(entry) > k, k)
                entry.append(i)
        for seq, entry in found.items():
            if len(entry) != len(parts):
                self._refuse_uneven(group, seq, parts, False, len(entry))
        return dict(sorted(found.items()))

    def _refuse_uneven(
        self, group: Group, seq: int, parts: list[tuple[int, int]], twice: bool, k: int
    ) -> None:
        rank = self.m.ranks[int(self.classes.first[parts[min(k, len(parts) - 1)][0]])]
        said = "is issued twice by" if twice else "is never issued by"
        name = group.name or "(all ranks)"
        raise TraceError(
            f"collective {seq} of group {name} {said} rank {rank}; all members must issue it once"
        )

    def _row(self, part: tuple[int, int], call: int) -> int:
        calls = self.m.programs[self._program(part[0])].calls
        return int(self.offset[part[0]] + calls.row[call])

    def _call(self, group: Group, seq: int, parts: list[tuple[int, int]], rows: list[int]) -> Call:
        """What the members agree on; sizes may differ, and the largest counts."""
        types, sizes, roots, asked = set(), [], [], set()
        for part, row in zip(parts, rows, strict=True):
            calls = self.m.programs[self._program(part[0])].calls
            at = int(np.flatnonzero(calls.row == row - self.offset[part[0]])[0])
            types.add(int(calls.type[at]))
            sizes.append(int(calls.size[at]))
            roots.append(self._bound(part[0], int(calls.root[at])))
            asked.add(calls.algorithm[at])
        name = group.name or "(all ranks)"
        if len(types) > 1:
            kinds = ", ".join(collective_name(t) for t in sorted(types))
            raise TraceError(f"collective {seq} of group {name} is {kinds}, depending on the rank")
        kind = types.pop()
        if kind not in COLLECTIVES:
            raise TraceError(
                f"collective {seq} of group {name} has comm_type {kind}, which is none"
            )
        if max(sizes) <= 0 and COLLECTIVES[kind] != "barrier" and not self.empty:
            raise TraceError(
                f"collective {seq} of group {name} is an {COLLECTIVES[kind]} of "
                f"{max(sizes)} bytes; give comm_size, or --allow-empty"
            )
        members = group.members.tolist()
        root = next((members.index(r) for r in roots if r in members), 0)
        local = {p[0]: row - int(self.offset[p[0]]) for p, row in zip(parts, rows, strict=True)}
        if len(asked) > 1:
            raise TraceError(
                f"collective {seq} of group {name} has another comm_algorithm on each rank"
            )
        return Call(COLLECTIVES[kind], max(0, *sizes), root, local, asked.pop())

    def _bound(self, c: int, rank: int) -> int:
        """A rank that the program of a class names, as the first of the class means it."""
        peers = self.m.traces.bindings[self.m.ranks[int(self.classes.first[c])]].peers
        return peers.get(rank, rank)

    # --- messages -----------------------------------------------------------------------------

    def _all_messages(self) -> None:
        claimed: set[int] = set()
        for c in range(self.classes.count):
            self._sends(c, claimed)
        self._check_receives(claimed)

    def _sends(self, c: int, claimed: set[int]) -> None:
        i = int(self.classes.first[c])
        mine = self.m.messages(i)
        tables: dict[int, dict[tuple[int, int, int], int]] = {}
        ranks = np.flatnonzero(self.classes.rank == c)
        src = self.device_of[ranks]
        peers = np.stack([self.m.peers(int(r)) for r in ranks]) if mine.is_send.any() else None
        for k in np.flatnonzero(mine.is_send).tolist():
            assert peers is not None
            rows = [int(self.offset[c] + mine.row[k])]
            other = self._receive(i, mine.peer[k], mine.tag[k], mine.nth[k], tables)
            if other is not None:
                if other in claimed:
                    raise FoldRefusedError("a receive is matched by sends of different classes")
                claimed.add(other)
                rows.append(other)
            self._message(c, rows, src, self._devices(peers[:, k]), int(mine.size[k]), mine.tag[k])

    def _devices(self, ranks: I64) -> I64:
        """Devices of ranks that may not have been recorded."""
        return np.array(
            [self.device_of[self.m.index[r]] if r in self.m.index else r for r in ranks.tolist()]
        )

    def _receive(
        self,
        i: int,
        peer: int,
        tag: int,
        nth: int,
        tables: dict[int, dict[tuple[int, int, int], int]],
    ) -> int | None:
        """The simulated row of the matching receive; None where the peer was not recorded."""
        j = self.m.index.get(int(peer), -1)
        if j < 0:
            self._allow_missing(i, int(peer))
            return None
        if j not in tables:
            b = self.m.messages(j)
            tables[j] = {
                (int(b.peer[k]), int(b.tag[k]), int(b.nth[k])): int(b.row[k])
                for k in np.flatnonzero(~b.is_send).tolist()
            }
        row = tables[j].get((self.m.ranks[i], int(tag), int(nth)))
        if row is None:
            raise TraceError(
                f"rank {self.m.ranks[i]} sends to rank {peer} (tag {tag}, number {nth}), "
                "which never receives it"
            )
        return int(self.offset[self.classes.rank[j]] + row)

    def _allow_missing(self, i: int, peer: int) -> None:
        if not self.m.assume_missing:
            raise TraceError(
                f"rank {self.m.ranks[i]} exchanges messages with rank {peer}, which was not recorded; "
                "--assume-missing symmetric lets it stand in"
            )

    def _message(self, c: int, rows: list[int], src: I64, dst: I64, size: int, tag: int) -> None:
        if size <= 0 and not self.empty:
            rank = self.m.ranks[int(self.classes.first[c])]
            raise TraceError(
                f"rank {rank} sends a message of {size} bytes; give comm_size, or --allow-empty"
            )
        first = self.book.add_pairs(src, dst, max(0, size))
        jobs = np.arange(first, first + len(src))
        what = (MESSAGE, "", int(tag))
        self.out.of_row[rows] = self.out.add(what, size, len(rows), jobs, -1, "direct", None)

    def _check_receives(self, claimed: set[int]) -> None:
        for c in range(self.classes.count):
            mine = self.m.messages(int(self.classes.first[c]))
            for k in np.flatnonzero(~mine.is_send).tolist():
                row = int(self.offset[c] + mine.row[k])
                if row in claimed:
                    continue
                i, peer = int(self.classes.first[c]), int(mine.peer[k])
                if peer in self.m.index:
                    raise TraceError(
                        f"rank {self.m.ranks[i]} receives from rank {peer} (tag {mine.tag[k]}, "
                        f"number {mine.nth[k]}), which never sends it"
                    )
                self._allow_missing(i, peer)
                ranks = np.flatnonzero(self.classes.rank == c)
                src = self._devices(np.array([self.m.peers(int(r))[k] for r in ranks]))
                self._message(c, [row], src, self.device_of[ranks], int(mine.size[k]), mine.tag[k])


class _Planner:
    """Plans for one class of groups; equal calls share plans."""

    def __init__(self, matcher: Matcher, number: int, copies: I64, group: Group) -> None:
        self.matcher, self.copies, self.group = matcher, copies, group
        m = matcher.m
        self.devices = np.stack([matcher._devices(m.groups[int(g)].members) for g in copies])
        shape = matcher.shape_of[int(copies[0])]
        assert shape is not None
        self.shape = shape
        self._known: dict[tuple[str, int, int, str], tuple[I64, str]] = {}

    def plan(self, call: Call) -> tuple[I64, str]:
        """The plan of every copy, and the algorithm's name."""
        splits = self._splits(call) if call.collective == "all-to-all" else None
        if splits is not None:
            return self._jobs(self._uneven(splits)), "direct"
        key = (call.collective, call.size, call.root, call.algorithm)
        if key not in self._known:
            self._known[key] = self._new_plan(call)
        return self._known[key]

    def _jobs(self, first: int) -> I64:
        return np.arange(first, first + len(self.copies))

    def _new_plan(self, call: Call) -> tuple[I64, str]:
        book, m = self.matcher.book, self.matcher
        n = len(self.group.members)
        if m.fixed is not None and (seconds := m.fixed(call.collective, n, call.size)) is not None:
            return self._jobs(book.add_fixed(seconds, len(self.copies))), "measured"
        total = data_bytes(call.collective, call.size, n)
        moves = m.custom(call.collective, n, call.size) if m.custom is not None else None
        if moves is None:
            each = total / n if call.collective == "all-to-all" else total
            name = self._choose(call, each)
            grid = grid_of(book.machine, self.devices[0]) if name == "hierarchical" else None
            moves = m.algorithms.moves(call.collective, name, each, self.shape, call.root, grid)
        return self._jobs(book.add(moves, self.devices, total)), moves.name

    def _choose(self, call: Call, size: float) -> str:
        """What the trace asks for; else what a policy does; else what was given, or looks fastest."""
        if call.algorithm:
            asked = Algorithms({call.collective: call.algorithm})
            return asked.choose(call.collective, size, self.shape)
        policy = self.matcher.policy
        if policy is None:
            return self.matcher.algorithms.choose(call.collective, size, self.shape)
        possible = [
            n
            for n in ALGORITHMS[call.collective]
            if estimate(call.collective, n, size, self.shape) < math.inf
        ]
        name = policy.choose(call.collective, self.shape.n, call.size, possible)
        if name not in possible:
            raise ConfigError(
                f"a policy chose {name!r} for {call.collective}; possible: {', '.join(possible)}"
            )
        return name

    def _splits(self, call: Call) -> list[list[float]] | None:
        """Bytes from each member to each, where every member's trace says."""
        m, found = self.matcher.m, []
        for i in self.group.present.tolist():
            if i < 0:
                return None
            row = call.rows[int(self.matcher.classes.rank[i])]
            splits = _splits_of(m.programs[m.body(i)].trace, row)
            if splits is None or len(splits) != len(self.group.members):
                return None
            found.append(splits)
        return found

    def _uneven(self, splits: list[list[float]]) -> int:
        moves = direct_all_to_all(len(splits))
        matrix = np.array(splits, np.float64)
        step = moves.steps[0]
        return self.matcher.book.add_bytes(moves, self.devices, [matrix[step.src, step.dst]])


def _splits_of(trace: Trace, row: int) -> list[float] | None:
    if "in_splits" not in trace.table.column_names:
        return None
    splits = trace.table.column("in_splits")[row].as_py()
    if not splits or min(splits) < 0:
        return None
    scale = int(trace.column("comm_size", 0)[row]) / max(1, sum(splits))
    return [s * scale for s in splits]
