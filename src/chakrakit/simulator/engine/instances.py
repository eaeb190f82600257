"""Instances: every collective and message of the classes, matched, with the plans its copies run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from chakrakit.arrays import I32, I64
from chakrakit.errors import TraceError
from chakrakit.simulator.collectives import COLLECTIVES, Algorithms, Shape
from chakrakit.simulator.engine.classes import Classes, RowNames
from chakrakit.simulator.engine.membership import Group, Membership
from chakrakit.simulator.engine.messages import MessageMatcher, device_table, message_pace
from chakrakit.simulator.engine.planner import Call, Crowd, Custom, Fixed, Planner, PlanSetting
from chakrakit.simulator.engine.plans import TransferPlans
from chakrakit.simulator.engine.policies import CollectivePolicy
from chakrakit.trace.communication import EQUAL_SIZES, ROOTED
from chakrakit.trace.model import collective_name

MESSAGE = "message"


@dataclass
class Instances:
    """Growing columns, one entry per instance; `of_row` gives the instance of each simulated row."""

    of_row: I32
    needed: list[int] = field(default_factory=list)
    jobs: list[I64] = field(default_factory=list)
    what: list[tuple[str, str, int]] = field(default_factory=list)
    """Collective (or message), group name, sequence number."""
    size: list[int] = field(default_factory=list)
    group_class: list[int] = field(default_factory=list)
    """The class whose groups hold the copies, -1 for a message."""
    rank_class: list[int] = field(default_factory=list)
    """The class whose ranks, ascending, have the copies of a message; -1 for a collective."""
    algorithm: list[str] = field(default_factory=list)
    shape: list[Shape | None] = field(default_factory=list)
    overhead: list[float | None] = field(default_factory=list)
    """Seconds before the first step, None for the machine's own overhead."""
    served: dict[int, tuple[I64, I64]] = field(default_factory=dict)
    """Of a storage operation, for each copy the server and the place of its rank."""
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
        overhead: float | None = None,
    ) -> int:
        """One more instance; returns its number."""
        self.needed.append(needed)
        self.jobs.append(jobs)
        self.what.append(what)
        self.size.append(size)
        self.group_class.append(group_class)
        self.rank_class.append(-1)
        self.algorithm.append(algorithm)
        self.shape.append(shape)
        self.overhead.append(overhead)
        return len(self.needed) - 1

    def add_messages(
        self,
        tag: I64,
        size: I64,
        sends: I64,
        receives: I64,
        jobs: list[I64],
        rank_class: I64,
        overhead: float | None,
    ) -> I64:
        """Instances of messages; returns their numbers."""
        first, count = len(self.needed), len(tag)
        self.needed += ((sends >= 0).astype(int) + (receives >= 0)).tolist()
        self.jobs += jobs
        self.what += [(MESSAGE, "", t) for t in tag.tolist()]
        self.size += size.tolist()
        self.group_class += [-1] * count
        self.rank_class += rank_class.tolist()
        self.algorithm += ["direct"] * count
        self.shape += [None] * count
        self.overhead += [overhead] * count
        return np.arange(first, first + count)


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
        jobs: Sequence[int] = (0,),
    ) -> None:
        self.m, self.classes, self.book = membership, classes, book
        self.shape_of, self.device_of = shape_of, device_of
        self.empty, self.first_ranks = empty, np.array(jobs, np.int64)
        self.setting = PlanSetting(membership, classes, book, algorithms, custom, fixed, policy)
        self._device = device_table(membership, device_of)
        self._crowds: dict[Hashable, Crowd] = {}
        sizes = [len(membership.programs[membership.body(int(i))]) for i in classes.first]
        self.offset = np.r_[0, np.cumsum(sizes)].astype(np.int64)
        self.out = Instances(np.full(int(self.offset[-1]), -1, np.int32))

    def match(self) -> Instances:
        """All of them: collectives by group, then messages by class."""
        for number in range(int(self.classes.group.max(initial=-1)) + 1):
            self._collectives(number)
        self._messages()
        return self.out

    # --- collectives --------------------------------------------------------------------------

    def _collectives(self, number: int) -> None:
        copies = self.classes.groups_of(number)
        group = self.m.groups[int(copies[0])]
        parts = self._participants(group)
        numbers = self._sequences(group, parts)
        rows = {
            seq: [self._row(p, s) for p, s in zip(parts, found, strict=True)]
            for seq, found in numbers.items()
        }
        if len(group.members) == 1:
            self.out.plain.append(np.array([r for part in rows.values() for r in part], np.int64))
            return
        shape = self.shape_of[int(copies[0])]
        assert shape is not None
        devices = np.stack([self._device[self.m.groups[int(g)].members] for g in copies])
        planner = Planner(self.setting, group, devices, shape, self._crowd(group))
        for seq, found in rows.items():
            call = self._call(group, seq, parts, found, numbers[seq])
            jobs, name, overhead = planner.plan(call)
            what = (call.collective, group.name, seq)
            instance = self.out.add(
                what, call.size, len(found), jobs, number, name, shape, overhead
            )
            self.out.of_row[found] = instance

    def _crowd(self, group: Group) -> Crowd:
        """All groups of the same job with the same roles and as many members."""
        key = self._crowd_key(group)
        if key not in self._crowds:
            rows = [self._device[g.members] for g in self.m.groups if self._crowd_key(g) == key]
            self._crowds[key] = Crowd(key, self.book.machine, np.stack(rows))
        return self._crowds[key]

    def _crowd_key(self, group: Group) -> Hashable:
        job = int(np.searchsorted(self.first_ranks, group.members[0], "right"))
        return job, len(group.members), tuple(np.unique(group.role).tolist())

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

    def _call(
        self,
        group: Group,
        seq: int,
        parts: list[tuple[int, int]],
        rows: list[int],
        numbers: list[int],
    ) -> Call:
        """What the members agree on; sizes of an all-to-all may differ, and the largest counts."""
        types, sizes, roots, asked = [], [], [], []
        for part, at in zip(parts, numbers, strict=True):
            calls = self.m.programs[self._program(part[0])].calls
            types.append(int(calls.type[at]))
            sizes.append(int(calls.size[at]))
            roots.append(self._bound(part[0], int(calls.root[at])))
            asked.append(calls.algorithm[at])
        name = group.name or "(all ranks)"
        said = _Said(f"collective {seq} of group {name}", self._names, rows)
        said.agree([collective_name(t) for t in types], "is {}", types)
        kind = types[0]
        if kind not in COLLECTIVES:
            raise TraceError(
                f"collective {seq} of group {name} has comm_type {kind}, which is no type of collective"
            )
        said.agree_on_call(kind, sizes, roots, self.empty)
        if max(sizes) <= 0 and COLLECTIVES[kind] != "barrier" and not self.empty:
            raise TraceError(
                f"collective {seq} of group {name} is an {COLLECTIVES[kind]} of "
                f"{max(sizes)} bytes; give comm_size, or --allow-empty"
            )
        members = group.members.tolist()
        root = next((members.index(r) for r in roots if r in members), 0)
        local = {p[0]: row - int(self.offset[p[0]]) for p, row in zip(parts, rows, strict=True)}
        said.agree([repr(a) for a in asked], "asks for the algorithm {}", asked)
        return Call(COLLECTIVES[kind], max(0, *sizes), root, local, asked[0])

    @cached_property
    def _names(self) -> RowNames:
        return RowNames(self.m, self.classes, self.offset)

    def _bound(self, c: int, rank: int) -> int:
        """A rank that the program of a class names, as the first of the class means it."""
        if rank < 0:
            return rank
        peers = self.m.traces.bindings[self.m.ranks[int(self.classes.first[c])]].peers
        return peers.get(rank, rank)

    # --- messages -----------------------------------------------------------------------------

    def _messages(self) -> None:
        found = MessageMatcher(
            self.m, self.classes, self.device_of, self.offset, self.empty
        ).match()
        if not len(found.size):
            return
        copies = np.array([len(d) for d in found.src])
        src, dst = np.concatenate(found.src), np.concatenate(found.dst)
        size = np.repeat(np.maximum(found.size, 0), copies).astype(np.float64)
        library = self.book.machine.library
        pace = (
            message_pace(library, self.book.machine, src, dst, size)
            if library is not None
            else (None, None)
        )
        first = self.book.add_messages(src, dst, size, *pace)
        jobs = np.split(np.arange(first, first + len(src)), np.cumsum(copies)[:-1])
        overhead = None if library is None else 0.0
        own = np.where(found.sends >= 0, found.sends, found.receives)
        rank_class = np.searchsorted(self.offset, own, "right") - 1
        number = self.out.add_messages(
            found.tag, found.size, found.sends, found.receives, jobs, rank_class, overhead
        )
        for rows in (found.sends, found.receives):
            self.out.of_row[rows[rows >= 0]] = number[rows >= 0]


@dataclass(frozen=True)
class _Said:
    """What members say of one collective, row by row; where they disagree, two of them are named."""

    what: str
    names: RowNames
    rows: list[int]

    def agree(self, shown: Sequence[str], text: str, values: Sequence[object]) -> None:
        """An error unless all values are equal; `text` says what a shown value is of."""
        other = next((i for i, v in enumerate(values) if v != values[0]), None)
        if other is None:
            return
        first, second = (
            f"{text.format(shown[i])} on {self.names.node(self.rows[i])}" for i in (0, other)
        )
        raise TraceError(f"{self.what} {first} and {second}; all members must say the same")

    def agree_on_call(self, kind: int, sizes: list[int], roots: list[int], empty: bool) -> None:
        """Sizes, where members share one, and roots; 0 bytes and a root below 0 are not said."""
        below = next((i for i, size in enumerate(sizes) if size < 0), None)
        if below is not None:
            node = self.names.node(self.rows[below])
            raise TraceError(f"{self.what} has {sizes[below]:,} bytes on {node}; give 0 or more")
        if kind in EQUAL_SIZES and not empty:
            known = [size or max(sizes) for size in sizes]
            self.agree([f"{size:,}" for size in sizes], "has {} bytes", known)
        if kind in ROOTED:
            said = next((r for r in roots if r >= 0), -1)
            self.agree(
                [str(r) for r in roots], "has the root {}", [r if r >= 0 else said for r in roots]
            )
