"""The groups and peers of every rank, resolved and checked, and the classes of ranks that are alike."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.results import counted
from chakrakit.simulator.engine.program import Program
from chakrakit.trace.communication import Calls, Classes, Company, UsedGroup, canonical_group
from chakrakit.trace.model import Node
from chakrakit.trace.sets import TraceSet

MOST_MEMBERS = 1 << 17
"""Members of a group; its collectives take some kilobytes per member, which makes a gigabyte or so."""


@dataclass(frozen=True, eq=False)
class Group:
    """A process group in use. `members` are ranks in the group's order."""

    name: str
    members: I64
    present: I64
    """For each member its index into the recorded ranks; -1 if it was not recorded."""
    role: I64
    """For each member the number of the role that its body uses for the group; -1 for none."""


class Membership:
    """The groups of every rank, checked; ranks are numbered by index into `ranks`."""

    def __init__(
        self, traces: TraceSet, programs: Sequence[Program], assume_missing: bool = False
    ) -> None:
        self.traces, self.programs = traces, programs
        _check_sizes(traces)
        self.communication = traces.communication
        self.ranks, self.index = self.communication.ranks, self.communication.place
        self.group_of = self.communication.group_of
        self.assume_missing = assume_missing
        for number, calls in enumerate(self.communication.programs):
            self._check_ends(self.communication.body[number], calls)
        self.groups = [self._group(used) for used in self.communication.groups]

    def body(self, i: int) -> int:
        """The body that the i-th rank runs."""
        return self.traces.bindings[self.ranks[i]].body

    def _check_ends(self, body: int, calls: Calls) -> None:
        unknown = np.flatnonzero(~calls.collective & (calls.peer < 0))
        if len(unknown):
            node = self.programs[body].trace[int(calls.row[unknown[0]])]
            end = "comm_dst" if calls.is_send[unknown[0]] else "comm_src"
            raise TraceError(f"node {node.id} ({node.name!r}) does not say {end}")

    def _group(self, used: UsedGroup) -> Group:
        name, users = used.name, dict(zip(*(c.tolist() for c in used.callers), strict=True))
        if name == "":
            _check_members(name, self.traces.world_size)
        members = self.traces.groups.ranks_of(name, range(self.traces.world_size))
        if members is None:
            existing = ", ".join(repr(n) for n in list(self.traces.groups)[:6]) or "none"
            rank = self.ranks[next(iter(users))]
            raise TraceError(
                f"rank {rank} uses group {name!r}, which does not exist; there are {existing}"
            )
        _check_members(name, len(members))
        if len(set(members)) < len(members):
            twice = next(m for i, m in enumerate(members) if m in members[:i])
            raise TraceError(f"group {name!r} lists rank {twice} twice; list every member once")
        present = np.array([self.index.get(m, -1) for m in members], np.int64)
        strangers = sorted(set(users) - set(present.tolist()))
        if strangers:
            raise TraceError(
                f"rank {self.ranks[strangers[0]]} uses group {name!r} but is not in it"
            )
        self._check_missing(name, members, present, users)
        role = np.array([users.get(i, -1) for i in present.tolist()], np.int64)
        return Group(name, np.array(members, np.int64), present, role)

    def _check_missing(
        self, name: str, members: Sequence[int], present: I64, users: Mapping[int, int]
    ) -> None:
        silent = [
            m for m, i in zip(members, present.tolist(), strict=True) if i >= 0 and i not in users
        ]
        if silent:
            raise TraceError(
                f"rank {silent[0]} is in group {name!r} but never communicates in it; "
                "the other members would wait for it"
            )
        if (present < 0).any() and not self.assume_missing:
            missing = members[int(np.flatnonzero(present < 0)[0])]
            raise TraceError(
                f"rank {missing} of group {name!r} was not recorded; --assume-missing symmetric lets it "
                "stand in by arriving with the others"
            )


def _check_sizes(traces: TraceSet) -> None:
    """Refuse a group that is too large before the calls of all ranks are resolved."""
    if traces.world_size <= MOST_MEMBERS:
        return
    for binding in {id(b): b for b in traces.bindings.values()}.values():
        calls = traces.calls_at(binding.body)
        for name in (binding.groups.get(n, n) for n in map(calls.names.__getitem__, calls.roles)):
            members = traces.groups.ranks_of(name, range(traces.world_size))
            _check_members(canonical_group(name, traces.groups), len(members or ()))


def _check_members(name: str, count: int) -> None:
    if count > MOST_MEMBERS:
        raise TraceError(
            f"group {name or '(all ranks)'!r} has {count:,} members; a collective of "
            f"{MOST_MEMBERS:,} is the largest that is simulated"
        )


# Classes of ranks that do the same at the same time, so that one of each is simulated.
#
# Ranks fold when they run the same body with the same durations on the same kind of device, their groups are
# of one class in every role, and so are their peers (`Communication.classes`). What the classes leave
# open, whether equal groups really take equal time on this machine with these routes, is checked while
# simulating: the network carries the traffic of every rank, and copies that end apart split their class
# (folding.py).


def refine(
    membership: Membership, rank_keys: Sequence[Hashable], group_keys: Sequence[Hashable]
) -> Classes:
    """The coarsest classes in which equal members have equal keys, groups and peers."""
    companies = [Company(g.present, g.role) for g in membership.groups]
    return membership.communication.classes(rank_keys, group_keys, companies)


class RowNames:
    """Gives simulated rows names for errors."""

    def __init__(self, membership: Membership, classes: Classes, offset: I64) -> None:
        self.membership, self.classes, self.offset = membership, classes, offset

    def _class(self, row: int) -> int:
        return int(np.searchsorted(self.offset, row, "right")) - 1

    def classes_of(self, rows: I64) -> list[int]:
        """The classes of rows, each once."""
        return [int(c) for c in np.unique(np.searchsorted(self.offset, rows, "right") - 1)]

    def at_place(self, place: int) -> int:
        """The rank at a place among the ranks."""
        return self.membership.ranks[place]

    def group(self, number: int, copy: int) -> str:
        """The name of one of the groups of a class."""
        return self.membership.groups[int(self.classes.groups_of(number)[copy])].name

    def node_at(self, rows: I64, place_on: Mapping[int, int], device: int) -> str:
        """Of an instance's rows the one of the rank on a device, by its node; else the first."""
        mine = self.classes.rank[place_on[device]] if device in place_on else -1
        own = [row for row in rows.tolist() if self._class(row) == mine]
        node = self._node((own or rows.tolist())[0])
        return f"node {node.id}, {node.name!r}"

    def rank(self, row: int) -> int:
        """The rank that a row belongs to."""
        return self.membership.ranks[int(self.classes.first[self._class(row)])]

    def node(self, row: int) -> str:
        """The name of a row, such as `rank 3 at node 17 ('all_reduce')`."""
        node = self._node(row)
        return f"rank {self.rank(row)} at node {node.id} ({node.name!r})"

    def _node(self, row: int) -> Node:
        c = self._class(row)
        trace = self.membership.programs[self.membership.body(int(self.classes.first[c]))].trace
        return trace[row - int(self.offset[c])]


def why_folded(classes: Classes, attempt: int) -> str:
    """Explains in words why ranks share classes, or why none do."""
    if classes.factor == 1:
        return "no two ranks have the same body, durations, device, groups and peers"
    count = f"{len(classes.rank):,} ranks fall into {counted(classes.count, 'class', 'classes')}"
    reason = f"{count} of the same body, durations, device, groups and peers"
    again = f"; split {attempt} times where equal groups ended apart" if attempt else ""
    return f"{reason}; all copies of every collective ended together{again}"
