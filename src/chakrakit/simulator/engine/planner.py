"""Plans of collectives: the algorithm of each call, and its transfers for every copy of its group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.machines.library import Library
from chakrakit.simulator.collectives import (
    Algorithms,
    CollectiveSteps,
    GroupShape,
    data_bytes,
    direct_all_to_all,
    grid_of,
    library_call,
    library_steps,
    own_pace,
    plain_cost,
    possible,
)
from chakrakit.simulator.engine.membership import Group, Membership
from chakrakit.simulator.engine.plans import TransferPlans
from chakrakit.trace.communication import Classes
from chakrakit.trace.model import Trace

# Policies: small classes that are called at decision points.
#
# A policy may have any of these methods:
#
# choose(collective, members, size, candidates) -> str     which algorithm; once for each distinct call
# pick(ready, now_ps) -> int | None                        which ready row a free pool lane runs next


class ReadyRow(NamedTuple):
    """A row that could run now."""

    rank: int
    row: int
    node_id: int
    name: str
    duration_ps: int


@runtime_checkable
class DispatchPolicy(Protocol):
    """Chooses what a free compute engine or host runs next.

    Called whenever a lane without a recorded order is free and rows are ready, in order of (time, rank,
    lane). The list is in the default order: priority, longest ready, lowest row. None lets the lane wait
    until another of its rows is ready; if there is none to come, the simulation ends as a deadlock.
    """

    def pick(self, ready: Sequence[ReadyRow], now_ps: int) -> int | None:
        """The index of the row to run, or None to wait."""
        ...


@runtime_checkable
class CollectivePolicy(Protocol):
    """Chooses the algorithms of collectives."""

    def choose(self, collective: str, members: int, size: int, candidates: Sequence[str]) -> str:
        """One of the candidates."""
        ...


Custom = Callable[[str, int, int], CollectiveSteps | None]
"""Called with (collective, members, size); gives a custom schedule, or None for the built-in choice."""
Fixed = Callable[[str, int, int], float | None]
"""Called with (collective, members, size); gives a measured time in seconds, or None to simulate it."""


class CollectiveCall(NamedTuple):
    """A collective to plan: its kind, size and root.

    `rows` has the row of an all-to-all in each class's body. `algorithm` is the one that the trace
    requests; "" where it requests none.
    """

    collective: str
    size: int
    root: int
    rows: dict[int, int]
    algorithm: str


@dataclass(frozen=True, eq=False)
class Crowd:
    """The groups that use the network together: one row of devices per group."""

    name: Hashable
    machine: Machine
    devices: I64

    @cached_property
    def shares_links(self) -> bool:
        """Whether two of the groups share a link when every member sends half way around its group."""
        copies, n = self.devices.shape
        if copies == 1:
            return False
        far = np.roll(self.devices, -(n // 2), 1)
        routes = self.machine.routes(self.devices.reshape(-1), far.reshape(-1))
        group = np.repeat(np.arange(len(routes)) // n, np.diff(routes.offsets))
        pairs = np.unique(np.stack([routes.links, group]), axis=1)
        return bool(np.bincount(pairs[0]).max(initial=0) > 1)


class Planned(NamedTuple):
    """The plan of every copy, the algorithm, and seconds before the first step (None: the machine's)."""

    jobs: I64
    algorithm: str
    overhead: float | None = None


@dataclass(frozen=True)
class PlanSetting:
    """The settings that all planners of a simulation share."""

    membership: Membership
    classes: Classes
    book: TransferPlans
    algorithms: Algorithms
    custom: Custom | None = None
    fixed: Fixed | None = None
    policy: CollectivePolicy | None = None
    choices: dict[Hashable, str] = field(default_factory=dict)
    """The algorithms chosen for groups that use the network together."""


class Planner:
    """Plans the calls of one class of groups; equal calls share plans. Row g of `devices` is the g-th copy.

    `crowd` holds the devices of all groups of the same role and size, whatever their class: they
    communicate at about the same time.
    """

    def __init__(
        self, setting: PlanSetting, group: Group, devices: I64, shape: GroupShape, crowd: Crowd
    ) -> None:
        self.setting, self.group, self.devices, self.shape = setting, group, devices, shape
        self.crowd = crowd
        self._plans: dict[tuple[str, int, int, str], Planned] = {}

    def plan(self, call: CollectiveCall) -> Planned:
        """The plans of a call."""
        splits = self._splits(call) if call.collective == "all-to-all" else None
        if splits is not None:
            return self._uneven(splits)
        key = (call.collective, call.size, call.root, call.algorithm)
        if key not in self._plans:
            self._plans[key] = self._new_plan(call)
        return self._plans[key]

    def _jobs(self, first: int) -> I64:
        return np.arange(first, first + len(self.devices))

    def _new_plan(self, call: CollectiveCall) -> Planned:
        setting, book, n = self.setting, self.setting.book, len(self.group.members)
        fixed = setting.fixed(call.collective, n, call.size) if setting.fixed else None
        if fixed is not None:
            # A measured time holds its launch.
            return Planned(self._jobs(book.add_fixed(fixed, len(self.devices))), "measured", 0.0)
        if call.collective == "all-to-all":
            book.check_transfers(len(self.devices) * n * (n - 1))
        total = data_bytes(call.collective, call.size, n)
        moves = setting.custom(call.collective, n, call.size) if setting.custom else None
        each = total / n if call.collective == "all-to-all" else total
        if moves is None and book.machine.library is not None:
            return self._by_library(call, total, each, book.machine.library)
        if moves is not None and book.machine.library is not None and not moves.own_kernels:
            return self._own(moves, total, book.machine.library)
        if moves is None:
            moves = self._moves(call, self._choose(call, each), each)
        return Planned(self._jobs(book.add(moves, self.devices, total)), moves.name)

    def _moves(self, call: CollectiveCall, name: str, each: float) -> CollectiveSteps:
        grid = (
            grid_of(self.setting.book.machine, self.devices[0]) if name == "hierarchical" else None
        )
        return self.setting.algorithms.moves(
            call.collective, name, each, self.shape, call.root, grid
        )

    def _own(self, moves: CollectiveSteps, total: float, library: Library) -> Planned:
        """A user's algorithm, with what the library's launch, protocols and channels cost."""
        book = self.setting.book
        flow = book.flowing(moves, self.devices[:1], total)
        assert self.shape.span is not None
        pace = own_pace(library, total, moves.depth, flow, self.shape.span)
        first = book.add_at_pace(moves, self.devices, total, pace.stretch, pace.hop)
        return Planned(self._jobs(first), moves.name, pace.fixed)

    def _by_library(
        self, call: CollectiveCall, total: float, each: float, library: Library
    ) -> Planned:
        """The plan of the machine's library; algorithms that it lacks run at its Simple protocol's pace."""
        book, span = self.setting.book, self.shape.span
        assert span is not None
        name = "" if self._free(call) else self._choose(call, each)
        library_choice = library_call(library, call.collective, each, span, name)
        if library_choice is None:
            moves = self._moves(call, name, each)
            stretch, hop = 1 / library.simple.share, library.simple.hop_us * 1e-6
            first = book.add_at_pace(moves, self.devices, total, stretch, hop)
            return Planned(self._jobs(first), moves.name, plain_cost(library))
        node, n = book.machine.instance(self.devices[0], 0), len(self.devices[0])
        moves = library_steps(library_choice, call.collective, n, call.root, node)
        first = book.add(moves, self.devices, total, library_choice.cost)
        return Planned(
            self._jobs(first), library_choice.choice.algorithm, library_choice.cost.fixed
        )

    def _free(self, call: CollectiveCall) -> bool:
        """Whether the choice of the algorithm is left to the library."""
        algorithm = call.algorithm or self.setting.algorithms.fixed.get(call.collective, "auto")
        return algorithm in ("", "auto") and self.setting.policy is None

    def _choose(self, call: CollectiveCall, size: float) -> str:
        """The algorithm that the trace requests, else the policy's, else the configured or fastest one."""
        if call.algorithm:
            return Algorithms({call.collective: call.algorithm}).asked(call.collective, self.shape)
        policy, names = self.setting.policy, possible(call.collective, self.shape)
        if policy is None:
            configured = self.setting.algorithms.asked(call.collective, self.shape)
            return configured or self._fastest(call, size, names)
        name = policy.choose(call.collective, self.shape.n, call.size, names)
        if name not in names:
            raise ConfigError(
                f"a policy chose {name!r} for {call.collective}; possible: {', '.join(names)}"
            )
        return name

    def _fastest(self, call: CollectiveCall, size: float, names: list[str]) -> str:
        """The fastest algorithm when all groups that share links use it at once."""
        if len(names) == 1:
            return names[0]
        crowd = self.crowd.devices if self.crowd.shares_links else self.devices[:1]
        key = (self.crowd.name, self.shape, call.collective, call.size, call.root)
        if key not in self.setting.choices:
            total = data_bytes(call.collective, call.size, len(self.group.members))
            schedules = {name: self._moves(call, name, size) for name in names}
            self.setting.choices[key] = self.setting.book.fastest(schedules, crowd, total)
        return self.setting.choices[key]

    def _splits(self, call: CollectiveCall) -> list[list[float]] | None:
        """Bytes from each member to each other; None unless every member's trace has them."""
        m, rows_of_splits = self.setting.membership, []
        for i in self.group.present.tolist():
            if i < 0:
                return None
            row = call.rows[int(self.setting.classes.rank[i])]
            splits = _splits_of(m.programs[m.body(i)].trace, row)
            if splits is None or len(splits) != len(self.group.members):
                return None
            rows_of_splits.append(splits)
        return rows_of_splits

    def _uneven(self, splits: list[list[float]]) -> Planned:
        self.setting.book.check_transfers(len(self.devices) * len(splits) ** 2)
        moves = direct_all_to_all(len(splits))
        matrix = np.array(splits, np.float64)
        book, step = self.setting.book, moves.steps[0]
        library, counts = book.machine.library, [matrix[step.src, step.dst]]
        if library is None:
            return Planned(self._jobs(book.add_bytes(moves, self.devices, counts)), "direct")
        x = library.exchange
        first = book.add_bytes(moves, self.devices, counts, max(1.0, 1 / x.share), 0.0)
        overhead = (library.launch_us + max(x.flow_us, x.start_us)) * 1e-6
        return Planned(self._jobs(first), "direct", overhead)


def _splits_of(trace: Trace, row: int) -> list[float] | None:
    if "in_splits" not in trace.table.column_names:
        return None
    splits = trace.table.column("in_splits")[row].as_py()
    if not splits or min(splits) < 0:
        return None
    scale = int(trace.column("comm_size", 0)[row]) / max(1, sum(splits))
    return [s * scale for s in splits]
