"""Instances: every matched collective and message of the rank classes, with the plans of all its copies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64
from chakrakit.errors import TraceError
from chakrakit.simulator.collectives import COLLECTIVES, Algorithms, GroupShape
from chakrakit.simulator.engine.membership import Group, Membership, RowNames
from chakrakit.simulator.engine.messages import MessageMatcher, device_table, message_pace
from chakrakit.simulator.engine.planner import (
    CollectiveCall,
    CollectivePolicy,
    Crowd,
    Custom,
    Fixed,
    Planner,
    PlanSetting,
)
from chakrakit.simulator.engine.plans import TransferPlans
from chakrakit.trace.communication import EQUAL_SIZES, ROOTED, Classes, match
from chakrakit.trace.model import collective_name

MESSAGE = "message"
_EVEN = [kind for kind, name in COLLECTIVES.items() if name != "all-to-all"]
"""Collectives in which the size alone determines what moves; an all-to-all may have uneven splits."""


@dataclass
class Instances:
    """Columns with one entry per instance; `of_row` gives the instance of each simulated row."""

    of_row: I32
    needed: list[int] = field(default_factory=list)
    jobs: list[I64] = field(default_factory=list)
    what: list[tuple[str, str, int]] = field(default_factory=list)
    """Collective (or message), group name, sequence number."""
    size: list[int] = field(default_factory=list)
    group_class: list[int] = field(default_factory=list)
    """The class of groups that run the copies; -1 for a message."""
    rank_class: list[int] = field(default_factory=list)
    """The class of ranks that send the copies of a message, in ascending order; -1 for a collective."""
    algorithm: list[str] = field(default_factory=list)
    shape: list[GroupShape | None] = field(default_factory=list)
    overhead: list[float | None] = field(default_factory=list)
    """Seconds before the first step; None for the machine's overhead."""
    served: dict[int, tuple[I64, I64]] = field(default_factory=dict)
    """For each storage operation, the server and the place of the rank of every copy."""
    set_up: float = 0.0
    """Seconds that setting up groups takes, all groups together."""
    plain: list[I64] = field(default_factory=list)
    """Rows of collectives with a single member, which are local work."""

    def add(
        self,
        *,
        title: tuple[str, str, int],
        size: int,
        needed: int,
        jobs: I64,
        group_class: int,
        algorithm: str,
        shape: GroupShape | None,
        overhead: float | None = None,
    ) -> int:
        """Adds an instance and returns its number."""
        self.needed.append(needed)
        self.jobs.append(jobs)
        self.what.append(title)
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
        """Adds instances of messages and returns their numbers."""
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
        *,
        membership: Membership,
        classes: Classes,
        book: TransferPlans,
        shape_of: list[GroupShape | None],
        device_of: I64,
        algorithms: Algorithms,
        custom: Custom | None = None,
        fixed: Fixed | None = None,
        empty: bool = False,
        policy: CollectivePolicy | None = None,
        jobs: Sequence[int] = (0,),
        hangs: bool = False,
    ) -> None:
        self.m, self.classes, self.book = membership, classes, book
        self.shape_of, self.device_of = shape_of, device_of
        self.empty, self.first_ranks = empty, np.array(jobs, np.int64)
        self.hangs = hangs
        self.setting = PlanSetting(membership, classes, book, algorithms, custom, fixed, policy)
        self._device = device_table(membership, device_of)
        self._crowds: dict[Hashable, Crowd] = {}
        sizes = [len(membership.programs[membership.body(int(i))]) for i in classes.first]
        self.offset = np.r_[0, np.cumsum(sizes)].astype(np.int64)
        self.out = Instances(np.full(int(self.offset[-1]), -1, np.int32))
        self.matching = match(membership.communication, classes)
        self.rows = self.matching.column("row") + np.repeat(
            self.offset[:-1], np.diff(self.matching.offset)
        )

    def match(self) -> Instances:
        """All instances: collectives by group, then messages by class."""
        for number, calls in enumerate(self._by_group()):
            self._collectives(number, calls)
        self._messages()
        return self.out

    # --- collectives --------------------------------------------------------------------------

    def _by_group(self) -> list[I64]:
        """The calls of each class of groups."""
        group = self.matching.group
        order = np.argsort(group, kind="stable")
        first = self.classes.first_group
        begin, end = (np.searchsorted(group[order], first, side) for side in ("left", "right"))
        return [order[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def _collectives(self, number: int, calls: I64) -> None:
        copies = self.classes.groups_of(number)
        group = self.m.groups[int(copies[0])]
        if len(group.members) == 1:
            self.out.plain.append(self.rows[calls])
            return
        shape = self.shape_of[int(copies[0])]
        assert shape is not None
        devices = np.stack([self._device[self.m.groups[int(g)].members] for g in copies])
        planner = Planner(self.setting, group, devices, shape, self._crowd(group))
        calls_by_instance, uneven = self._instances(group, calls)
        for some in uneven:
            number_of = int(self._column["number"][some[0]])
            self.out.of_row[self.rows[some]] = self._never_ends(group, number, number_of, len(some))
        first = len(self.out.needed)
        set_up = max(self._set_up[int(g)] for g in copies)
        for seq, call in self._calls(group, calls_by_instance):
            if call is None:
                self._never_ends(group, number, seq, calls_by_instance.shape[1])
                continue
            jobs, name, overhead = planner.plan(call)
            if set_up:
                overhead = set_up + (self._usual if overhead is None else overhead)
                self.out.set_up += set_up * len(copies)
                set_up = 0.0  # from the second collective on the group is there
            title = (call.collective, group.name, seq)
            self.out.add(
                title=title,
                size=call.size,
                needed=calls_by_instance.shape[1],
                jobs=jobs,
                group_class=number,
                algorithm=name,
                shape=shape,
                overhead=overhead,
            )
        self.out.of_row[self.rows[calls_by_instance]] = np.arange(
            first, first + len(calls_by_instance)
        )[:, None]

    def _never_ends(self, group: Group, group_class: int, seq: int, calls: int) -> int:
        """Adds a collective whose calls do not fit together: whoever makes one of them waits for ever."""
        return self.out.add(
            title=("collective", group.name, seq),
            size=0,
            needed=calls + 1,
            jobs=np.zeros(0, np.int64),
            group_class=group_class,
            algorithm="none",
            shape=None,
        )

    @cached_property
    def _set_up(self) -> list[float]:
        """Seconds that each group takes to be there, before its first collective."""
        groups, cost = self.m.groups, self.book.machine.software.groups
        out = [0.0] * len(groups)
        if cost is None:
            return out
        used = np.unique(self.matching.group[self.matching.group >= 0])
        used = used[[len(groups[g].members) > 1 for g in used.tolist()]]
        every = np.isin(self.classes.group, self.classes.group[used]).nonzero()[0]
        seconds = cost.seconds([groups[g].members for g in every.tolist()])
        for g, took in zip(every.tolist(), seconds, strict=True):
            out[g] = took
        return out

    @property
    def _usual(self) -> float:
        return self.book.machine.software.collective_overhead

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

    def _participants(self, group: Group) -> list[int]:
        """Every pair of class and role in the group once, in the group's order."""
        recorded = group.present >= 0
        parts = self.classes.rank[group.present[recorded]] * self._roles + group.role[recorded]
        return list(dict.fromkeys(parts.tolist()))

    def _instances(self, group: Group, calls: I64) -> tuple[I64, list[I64]]:
        """One row per collective, in the order of their numbers: the call of every participant.

        Then the calls of those that some participants make another number of times, where they may hang.
        """
        parts = self._participants(group)
        place = {part: i for i, part in enumerate(parts)}
        participant = np.array([place[p] for p in self.matching.part[calls].tolist()], np.int64)
        numbers, instance = np.unique(self.matching.instance[calls], return_inverse=True)
        count = np.bincount(
            instance * len(parts) + participant, minlength=len(numbers) * len(parts)
        )
        wrong = np.flatnonzero(count != 1)
        ordered = calls[np.lexsort((participant, instance))]
        if not len(wrong):
            return ordered.reshape(-1, len(parts)), []
        at, part = divmod(int(wrong[0]), len(parts))
        if not self.hangs:
            seq = int(self._column["number"][calls[instance == at][0]])
            self._refuse_uneven(group, seq, parts[part], bool(count[wrong[0]]))
        uneven = np.unique(wrong // len(parts))
        regular = ordered[~np.isin(np.sort(instance), uneven)]
        return regular.reshape(-1, len(parts)), [calls[instance == i] for i in uneven.tolist()]

    def _refuse_uneven(self, group: Group, seq: int, part: int, twice: bool) -> None:
        rank = self.m.ranks[int(self.classes.first[part // self._roles])]
        fault = "is issued twice by" if twice else "is never issued by"
        name = group.name or "(all ranks)"
        raise TraceError(
            f"collective {seq} of group {name} {fault} rank {rank}; all members must issue it once"
        )

    @property
    def _roles(self) -> int:
        return self.m.communication.roles

    @cached_property
    def _column(self) -> dict[str, I64]:
        return {name: self.matching.column(name) for name in ("number", "kind", "bytes")}

    @cached_property
    def _roots(self) -> I64:
        """The root of each call, as its rank numbers it; below 0 where the call names none."""
        roots = [self.m.communication.ends(i)[0] for i in self.classes.first.tolist()]
        return np.concatenate([*roots, np.zeros(0, np.int64)])

    @cached_property
    def _algorithms(self) -> NDArray[Any]:
        """The algorithm that each call requests; "" where it requests none."""
        parts: list[NDArray[Any]] = [np.zeros(0, object)]
        for i, calls in zip(self.classes.first.tolist(), self.matching.programs(), strict=True):
            trace = self.m.programs[self.m.body(i)].trace
            parts.append(trace.column("comm_algorithm", "")[calls.row])
        return np.concatenate(parts)

    def _calls(
        self, group: Group, calls_by_instance: I64
    ) -> Iterator[tuple[int, CollectiveCall | None]]:
        """The number of each collective, and the call that its members agree on; None where they may differ.

        Collectives whose members plainly agree, and name no root, are not checked one by one.
        """
        numbers = self._column["number"][calls_by_instance[:, 0]].tolist()
        kind, size = (
            self._column["kind"][calls_by_instance],
            self._column["bytes"][calls_by_instance],
        )
        algorithm = self._algorithms[calls_by_instance]
        clear = (
            np.isin(kind[:, 0], _EVEN)
            & (size[:, 0] > 0)
            & (self._roots[calls_by_instance] < 0).all(1)
        )
        for column in (kind, size, algorithm):
            clear &= (column == column[:, :1]).all(1)
        first_calls = zip(
            kind[:, 0].tolist(), size[:, 0].tolist(), algorithm[:, 0].tolist(), strict=True
        )
        for i, (seq, (of, most, name)) in enumerate(zip(numbers, first_calls, strict=True)):
            if clear[i]:
                yield seq, CollectiveCall(COLLECTIVES[of], most, 0, {}, str(name))
            else:
                yield seq, self._agreed(group, seq, calls_by_instance[i])

    def _agreed(self, group: Group, seq: int, calls: I64) -> CollectiveCall | None:
        try:
            return self._call(group, seq, calls)
        except TraceError:
            if not self.hangs:
                raise
            return None

    def _call(self, group: Group, seq: int, calls: I64) -> CollectiveCall:
        """The call that the members agree on; in an all-to-all sizes may differ, and the largest counts."""
        rows = self.rows[calls].tolist()
        types, sizes, roots = (
            column[calls].tolist()
            for column in (self._column["kind"], self._column["bytes"], self._roots)
        )
        name = group.name or "(all ranks)"
        agreement = _Said(f"collective {seq} of group {name}", self._names, rows)
        agreement.agree(types, lambda i: f"is {collective_name(types[i])}")
        kind = types[0]
        if kind not in COLLECTIVES:
            raise TraceError(
                f"collective {seq} of group {name} has comm_type {kind}, which is not a type of collective"
            )
        agreement.agree_on_call(kind, sizes, roots, self.empty)
        if max(sizes) <= 0 and COLLECTIVES[kind] != "barrier" and not self.empty:
            raise TraceError(
                f"collective {seq} of group {name} is an {COLLECTIVES[kind]} of "
                f"{max(sizes)} bytes; give comm_size, or --allow-empty"
            )
        root = agreement.root_among(group.members, roots, kind)
        owner = (self.matching.part[calls] // self._roles).tolist()
        local = {c: row - int(self.offset[c]) for c, row in zip(owner, rows, strict=True)}
        algorithms = self._algorithms[calls].tolist()
        agreement.agree(algorithms, lambda i: f"asks for the algorithm {str(algorithms[i])!r}")
        return CollectiveCall(COLLECTIVES[kind], max(0, *sizes), root, local, str(algorithms[0]))

    @cached_property
    def _names(self) -> RowNames:
        return RowNames(self.m, self.classes, self.offset)

    # --- messages -----------------------------------------------------------------------------

    def _messages(self) -> None:
        messages = MessageMatcher(
            self.m, self.matching, self.rows, self.device_of, self.empty
        ).match()
        if not len(messages.size):
            return
        copies, src, dst = messages.copies, messages.src, messages.dst
        size = np.repeat(np.maximum(messages.size, 0), copies).astype(np.float64)
        library = self.book.machine.library
        pace = (
            message_pace(library, self.book.machine, src, dst, size)
            if library is not None
            else (None, None)
        )
        first = self.book.add_messages(src, dst, size, *pace)
        plans, ends = np.arange(first, first + len(src)), np.cumsum(copies).tolist()
        jobs = [plans[a:b] for a, b in pairwise([0, *ends])]
        overhead = None if library is None else 0.0
        near_rows = np.where(messages.sends >= 0, messages.sends, messages.receives)
        rank_class = np.searchsorted(self.offset, near_rows, "right") - 1
        number = self.out.add_messages(
            messages.tag,
            messages.size,
            messages.sends,
            messages.receives,
            jobs,
            rank_class,
            overhead,
        )
        for rows in (messages.sends, messages.receives):
            self.out.of_row[rows[rows >= 0]] = number[rows >= 0]


@dataclass(frozen=True)
class _Said:
    """Checks that the members of one collective agree; where they do not, the error names two of them."""

    what: str
    names: RowNames
    rows: list[int]

    def agree(self, values: Sequence[object], statement: Callable[[int], str]) -> None:
        """Raises an error unless all values are equal; `statement(i)` describes the i-th in words."""
        if values.count(values[0]) == len(values):
            return
        differing = next(i for i, v in enumerate(values) if v != values[0])
        first, second = (
            f"{statement(i)} on {self.names.node(self.rows[i])}" for i in (0, differing)
        )
        raise TraceError(f"{self.what} {first} and {second}; all members must say the same")

    def agree_on_call(self, kind: int, sizes: list[int], roots: list[int], empty: bool) -> None:
        """Raises an error unless members agree on size and root; 0 bytes and a root below 0 leave it open."""
        if min(sizes) < 0:
            below = next(i for i, size in enumerate(sizes) if size < 0)
            node = self.names.node(self.rows[below])
            raise TraceError(f"{self.what} has {sizes[below]:,} bytes on {node}; give 0 or more")
        if kind in EQUAL_SIZES and not empty:
            largest = max(sizes)
            stated = [size or largest for size in sizes]
            self.agree(stated, lambda i: f"has {sizes[i]:,} bytes")
        if kind in ROOTED:
            root = next((r for r in roots if r >= 0), -1)
            self.agree([r if r >= 0 else root for r in roots], lambda i: f"has the root {roots[i]}")

    def root_among(self, members: I64, roots: list[int], kind: int) -> int:
        """The root's place among the members; 0 where no call names a root."""
        at = next((i for i, root in enumerate(roots) if root >= 0), None)
        if kind not in ROOTED or at is None:
            return 0
        places = np.flatnonzero(members == roots[at])
        if not len(places):
            raise TraceError(
                f"{self.what} has the root {roots[at]} on {self.names.node(self.rows[at])}, and no "
                "member is that rank; give comm_src as a rank of the group"
            )
        return int(places[0])
