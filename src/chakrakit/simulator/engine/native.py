"""The native simulator: runs traces on a machine, one rank per class, with the traffic of every rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.arrays import F64, I8, I32, I64
from chakrakit.errors import ConfigError, DeadlockError, TraceError
from chakrakit.machines.device import (
    PS_PER_S,
    Clocks,
    Costs,
    CostSource,
    WorkModel,
    each_picoseconds,
    nanoseconds_to_ticks,
    picoseconds,
    unit_demand,
    work_model,
)
from chakrakit.machines.fabric import Machine, Routes
from chakrakit.simulator.collectives import Algorithms, GroupShape, shapes
from chakrakit.simulator.engine.disturb import Disturbance, link_changes
from chakrakit.simulator.engine.failed import Failed
from chakrakit.simulator.engine.folding import Splits
from chakrakit.simulator.engine.instances import Instances, Matcher
from chakrakit.simulator.engine.link_ranks import LinkRanks, link_ranks
from chakrakit.simulator.engine.measured import as_measured, recorded_starts, refuse_shares
from chakrakit.simulator.engine.membership import Membership, refine, why_folded
from chakrakit.simulator.engine.messages import FoldRefusedError, device_table
from chakrakit.simulator.engine.placing import whole_groups
from chakrakit.simulator.engine.planner import (
    CollectivePolicy,
    Custom,
    DispatchPolicy,
    Fixed,
    ReadyRow,
)
from chakrakit.simulator.engine.plans import FIGURES, TransferPlans, link_bytes
from chakrakit.simulator.engine.port_prices import PortUse, port_use
from chakrakit.simulator.engine.program import COMPUTE, PLAIN, Program, read_program, read_programs
from chakrakit.simulator.engine.progress import Progress
from chakrakit.simulator.engine.stored import (
    StoredMatcher,
    StoredOperations,
    gate_arrays,
    stored_operations,
)
from chakrakit.simulator.engine.stuck import check_horizon, why_stuck
from chakrakit.simulator.engine.traffic import JOBS, Traffic
from chakrakit.trace.communication import Binding, Classes, Groups, bind
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import Card, TraceSet, has_run


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The outcome of a simulation: arrays over the rows of the simulated classes, times in picoseconds."""

    membership: Membership
    classes: Classes
    why: str
    offset: I64
    start: I64
    end: I64
    binding: I32
    reason: I8
    durations: I64
    sources: I8
    """The CostSource of each duration."""
    errors: F64
    """The relative error of each duration, as far as its source knows it."""
    instances: Instances
    began: I64
    ended: I64
    link_bytes: F64
    full_rate: F64
    """By link, bytes/s: the lowest throughput while it held traffic back; below 0 where it never did."""
    full_since: I64
    """By link, when that throughput began, in picoseconds."""
    events: int
    device_of: I64
    """The device of each rank, by its place among the ranks."""
    splits: Splits | None = None
    """The splits of the classes at the end; None where every rank was simulated."""
    stored: StoredOperations | None = None
    """The operations of storage servers; None where no rank used one."""
    link_ranks: LinkRanks = field(default_factory=LinkRanks.none)
    ports: PortUse | None = None
    """What messages cost at ports; None where nothing is known of that."""
    stuck: str = ""
    """Why the simulation stopped before all rows had ended; rows that have not have an end of -1."""
    progress: Progress | None = None
    """What was on its way then."""
    traffic: Traffic | None = None
    """What went over the links, and when."""

    def program(self, c: int) -> Program:
        """The program that the ranks of a class run."""
        return self.membership.programs[self.membership.body(int(self.classes.first[c]))]

    def rows(self, c: int) -> slice:
        """The rows of a class, as a slice of the arrays."""
        return slice(int(self.offset[c]), int(self.offset[c + 1]))

    def devices(self) -> dict[int, int]:
        """The device of each rank, by rank."""
        return dict(zip(self.membership.ranks, self.device_of.tolist(), strict=True))

    @property
    def makespan_ps(self) -> int:
        """The end of the last row."""
        return int(self.end.max(initial=0))


SPLITS = 8
"""Attempts with ever finer classes before every rank is simulated; each attempt costs a whole simulation."""
LEAST_FACTOR = 1.5
"""Ranks per simulated rank; with fewer, another attempt costs more than it saves."""


@dataclass(frozen=True)
class SimulationOptions:
    """The options of a simulation. With `share_compute`, concurrent compute rows share a device evenly."""

    network: Literal["flow", "analytical"] = "flow"
    work: WorkModel = field(default_factory=lambda: work_model("auto"))
    fold: bool = True
    algorithms: Algorithms = field(default_factory=Algorithms)
    disturbance: Disturbance = field(default_factory=Disturbance)
    clocks: Clocks = field(default_factory=Clocks)
    assume_missing: bool = False
    allow_empty: bool = False
    mismatches: Literal["refuse", "hang"] = "refuse"
    """Collectives whose calls differ or are missing on a rank: an error, or a hang, as in a job."""
    share_compute: bool = False
    placement: tuple[int, ...] | None = None
    """The device of each rank; by default its own number."""
    jobs: tuple[int, ...] = (0,)
    """The first rank of each job, where the traces are of several."""
    custom: Custom | None = None
    measured_collectives: Fixed | None = None
    dispatch: DispatchPolicy | None = None
    collectives: CollectivePolicy | None = None
    host: bool = True
    """Whether captured programs are launched by a host."""
    framework: str = ""
    """The framework whose casts and unfused kernels computed times have; empty for kernels alone."""
    communication: Literal["simulated", "measured"] = "simulated"
    """With `measured`, every transfer takes its recorded time, whatever the machine."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The user's settings in plain values, which are only copied to the card of the Run."""


def run(traces: TraceSet, machine: Machine, options: SimulationOptions | None = None) -> Outcome:
    """Simulates all ranks of the traces on the machine."""
    return NativeSimulation(traces, machine, options or SimulationOptions()).run()


class _Prepared(NamedTuple):
    """The parts of a simulation that do not depend on durations: classes, instances and plans."""

    splits: Splits | None
    classes: Classes
    offset: I64
    instances: Instances
    plans: dict[str, Any]
    links: dict[str, Any]
    routes: Routes
    link_ranks: LinkRanks
    measured: dict[str, Any]
    """Arrays of the workload that are replaced where communication keeps its recorded times."""


class LaidOut(NamedTuple):
    """All ranks of a workload in the arrays of the core, one by one, with plans and the routes they use."""

    workload: dict[str, Any]
    plans: dict[str, Any]
    links: dict[str, Any]
    offset: I64
    """The first row of each rank, and an end."""


class Folded(NamedTuple):
    """One rank of each class of a workload in the arrays of the core."""

    classes: Classes
    offset: I64
    """The first row of each class, and an end."""
    instances: Instances
    programs: list[Program]
    workload: dict[str, Any]


class NativeSimulation:
    """A simulation of all ranks of the traces on the machine, which can be repeated with other durations."""

    def __init__(self, traces: TraceSet, machine: Machine, options: SimulationOptions) -> None:
        if not len(traces):
            raise TraceError("no ranks to simulate")
        self.traces, self.machine, self.options = traces, machine, options
        self.programs = self._programs()
        self.membership = Membership(traces, self.programs, options.assume_missing)
        self.device_of = self._placed()
        self.shape_of = self._shapes()
        ranks = self.membership.ranks
        disturbance = options.disturbance.on(machine, ranks, self.device_of)
        disturbance.check_ranks(ranks)
        self.options = replace(options, disturbance=disturbance)
        self._costs: dict[tuple[int, int, float], Costs] = {}
        self._prepared: _Prepared | None = None

    def _programs(self) -> list[Program]:
        """The programs of all bodies; small ones are read together."""
        bodies = [self.traces.body_at(number) for number in range(self.traces.body_count)]
        if "measured" in (self.options.work.name, self.options.communication):
            for body in bodies:
                refuse_shares(body)
        programs, calls = read_programs(bodies, self._widths)
        for number, each in calls.items():
            self.traces.keep_calls(number, each)
        return [
            p or self._program(n, b) for n, (p, b) in enumerate(zip(programs, bodies, strict=True))
        ]

    def _program(self, number: int, body: Trace) -> Program:
        if body.is_dangling:
            first = body.dangling.slice(0, 1).to_pylist()[0]
            raise TraceError(
                f"body {number}: node {body.ids[first['row']]} depends on node {first['id']}, which does "
                "not exist; `chakra validate --fix` drops such dependencies"
            )
        self.traces.calls_at(number)  # while the body is at hand
        return read_program(body, self._widths)

    @cached_property
    def _widths(self) -> dict[str, int]:
        """How many rows a unit runs at a time; where devices differ, the most."""
        units = [unit for device in self.machine.devices for unit in device.units.values()]
        return {u.name: max(v.width for v in units if v.name == u.name) for u in units}

    def _placed(self) -> I64:
        ranks = np.array(self.membership.ranks, np.int64)
        placement = self.options.placement
        if placement is None:
            world = max(self.traces.world_size, int(ranks.max()) + 1)
            self.machine.check_ranks(world)
            placed = whole_groups(ranks, world, self.machine)
            self._check_free(placed)
            return placed
        if self.traces.missing_ranks:
            raise ConfigError("a placement is for all ranks, and some were not recorded")
        device_by_rank = dict(enumerate(placement))
        for rank in ranks.tolist():
            if not 0 <= device_by_rank.get(rank, -1) < self.machine.size:
                raise ConfigError(
                    f"the placement leaves rank {rank} without one of {self.machine.size} devices; list a "
                    "device from 0 for every rank"
                )
        devices = np.array([placement[r] for r in ranks.tolist()], np.int64)
        self._check_free(devices)
        if len(np.unique(devices)) != len(devices):
            raise ConfigError("the placement puts two ranks on one device")
        return devices

    def _check_free(self, devices: I64) -> None:
        """Raises an error if a rank is on a node that is a storage server."""
        on_servers = devices[~np.isin(devices, self.machine.free_devices)]
        if len(on_servers):
            node = int(on_servers[0]) // self.machine.node_size
            raise ConfigError(
                f"device {int(on_servers[0])} is in node {node}, which is a storage server; give "
                "--placement, or put the servers on other nodes"
            )

    def _shapes(self) -> list[GroupShape | None]:
        """The shape of each group on the machine; groups of equal size are computed together."""
        out: list[GroupShape | None] = [None] * len(self.membership.groups)
        table = device_table(self.membership, self.device_of)
        by_size: dict[int, list[int]] = {}
        for g, group in enumerate(self.membership.groups):
            if len(group.members) > 1:
                by_size.setdefault(len(group.members), []).append(g)
        for numbers in by_size.values():
            devices = np.stack([table[self.membership.groups[g].members] for g in numbers])
            for g, shape in zip(numbers, shapes(self.machine, devices), strict=True):
                out[g] = shape
        return out

    # --- folding ------------------------------------------------------------------------------

    def run_again(self, work: WorkModel, before: Outcome) -> Outcome:
        """Simulates again with another work model, starting from the classes that the last run ended with."""
        self.options = replace(self.options, work=work)
        self._costs.clear()
        return self.run(before.splits) if before.splits else self._unfolded(before.why)

    def run(self, begin: Splits | None = None) -> Outcome:
        """Simulates; `begin` are the splits to start from."""
        if not self.options.fold:
            return self._unfolded("not asked for")
        if self.options.dispatch is not None:
            return self._unfolded("a dispatch policy may treat ranks apart")
        splits = begin or Splits.none(self.membership)
        for attempt in range(SPLITS):
            classes = self._classes(splits)
            if attempt and classes.factor < LEAST_FACTOR:
                break
            try:
                outcome, further = self._attempt(classes, why_folded(classes, attempt), splits)
            except FoldRefusedError as error:
                return self._unfolded(str(error))
            if further is None:
                return _finished(outcome)
            splits = further
        return self._unfolded("equal groups or pairs of ranks kept ending apart")

    def _unfolded(self, why: str) -> Outcome:
        return _finished(self._attempt(self.membership.communication.apart(), why)[0])

    def laid_out(self) -> LaidOut:
        """What the core would simulate, with every rank apart."""
        classes = self.membership.communication.apart()
        book = TransferPlans(self.machine, self.options.network == "flow")
        _, _, offset, instances, plans, links, _, ranks, _ = self._prepare(classes, None, book)
        workload = self._workload(classes, offset, instances) | ranks.arrays(instances)
        return LaidOut(workload, plans, links, offset)

    def folded(self) -> Folded:
        """One rank of each class in the arrays of the core, with one copy of every transfer."""
        splits, book = Splits.none(self.membership), TransferPlans(self.machine, fair=False)
        classes = self._classes(splits) if self.options.fold else None
        try:
            matcher = self._matcher(classes or self.membership.communication.apart(), book)
            instances = matcher.match()
        except FoldRefusedError:
            matcher = self._matcher(self.membership.communication.apart(), book)
            instances = matcher.match()
        instances.jobs = list(np.arange(len(instances.needed))[:, None])
        instances.overhead = [0.0] * len(instances.needed)
        workload = self._workload(matcher.classes, matcher.offset, instances)
        members = [int(i) for i in matcher.classes.first]
        programs = [self.programs[self.membership.body(i)] for i in members]
        workload |= link_ranks(programs, instances).arrays(instances)
        workload["release"] = recorded_starts(programs)
        return Folded(matcher.classes, matcher.offset, instances, programs, workload)

    def _classes(self, splits: Splits) -> Classes:
        ranks = self.membership.ranks
        disturbance = self.options.disturbance
        rank_keys = [
            (
                self.traces.bindings[r].scale,
                int(self.machine.device_of[d]),
                disturbance.key(r),
                split,
            )
            for r, d, split in zip(ranks, self.device_of.tolist(), splits.rank, strict=True)
        ]
        group_keys = list(zip(self.shape_of, splits.group, strict=True))
        return refine(self.membership, rank_keys, group_keys)

    def _attempt(
        self, classes: Classes, why: str, splits: Splits | None = None
    ) -> tuple[Outcome, Splits | None]:
        """Simulates one rank of each class; returns the outcome, and finer splits if copies ended apart."""
        flow = self.options.network == "flow"
        if self._prepared is None or self._prepared.splits is not splits:
            self._prepared = self._prepare(classes, splits, TransferPlans(self.machine, flow))
        _, classes, offset, instances, plans, links, routes, ranks, measured = self._prepared
        workload = self._workload(classes, offset, instances) | ranks.arrays(instances) | measured
        arrays = core.sim_run(
            core.SimWorkload(**workload),
            core.SimPlans(**{k: v for k, v in plans.items() if k not in FIGURES}),
            core.SimTopology(**links),
            flow,
            self._pick(classes, offset),
        )
        check_horizon(self.membership, classes, offset, arrays)
        failed = Failed.at_end(self.machine, workload, plans, links)
        stuck = why_stuck(
            self.membership, classes, offset, instances, arrays, failed, self.device_of
        )
        stored = stored_operations(instances, self.machine, arrays)
        moved = link_bytes(plans, routes, arrays["job_runs"], len(self.machine.links))
        costs = [self._costs_of(int(i)) for i in classes.first]
        outcome = Outcome(
            membership=self.membership,
            classes=classes,
            why=why,
            offset=offset,
            start=arrays["start"],
            end=arrays["end"],
            binding=arrays["binding"],
            reason=arrays["reason"],
            durations=workload["duration"],
            sources=_concat([c.source for c in costs], np.int8),
            errors=_concat([c.error for c in costs], np.float64),
            instances=instances,
            began=arrays["began"],
            ended=arrays["ended"],
            link_bytes=moved,
            full_rate=arrays["full_rate"] * PS_PER_S,
            full_since=arrays["full_since"],
            events=int(arrays["events"]),
            device_of=self.device_of,
            splits=splits,
            stored=stored,
            link_ranks=ranks,
            ports=port_use(plans, routes, arrays["job_runs"]),
            stuck=stuck,
            progress=Progress.of(self.machine, plans, links, arrays) if stuck else None,
            traffic=Traffic(plans, links, routes, {k: workload[k] for k in JOBS}, arrays, flow),
        )
        return outcome, splits and splits.further(classes, instances, arrays["job_ended"])

    def _prepare(self, classes: Classes, splits: Splits | None, book: TransferPlans) -> _Prepared:
        matcher = self._matcher(classes, book)
        instances, offset = matcher.match(), matcher.offset
        measured = self.options.communication == "measured"
        StoredMatcher(self.membership, classes, self.device_of, offset, book, measured).match(
            instances
        )
        differs: dict[str, Any] = {}
        programs = [self.programs[self.membership.body(int(i))] for i in classes.first]
        if measured:
            after = as_measured(instances, programs, book)
            differs = {"after": after, "release": recorded_starts(programs)}
            differs |= self._instance_arrays(instances)
        ranks = link_ranks(programs, instances)
        return _Prepared(splits, classes, offset, instances, *book.arrays(), ranks, differs)

    def _matcher(self, classes: Classes, book: TransferPlans) -> Matcher:
        options = self.options
        return Matcher(
            membership=self.membership,
            classes=classes,
            book=book,
            shape_of=self.shape_of,
            device_of=self.device_of,
            algorithms=options.algorithms,
            custom=options.custom,
            fixed=options.measured_collectives,
            empty=options.allow_empty or options.communication == "measured",
            policy=options.collectives,
            jobs=options.jobs,
            hangs=options.mismatches == "hang",
        )

    # --- arrays for the core ------------------------------------------------------------------

    def _durations_of(self, i: int) -> I64:
        """Durations of the i-th rank's rows, with its disturbances."""
        rank, program = self.membership.ranks[i], self.programs[self.membership.body(i)]
        disturbance, is_compute = self.options.disturbance, program.kind == COMPUTE
        return disturbance.apply(rank, self._costs_of(i).ps, is_compute, lambda: program.trace.step)

    def _costs_of(self, i: int) -> Costs:
        """The costs of the i-th rank's rows without disturbances."""
        rank = self.membership.ranks[i]
        binding = self.traces.bindings[rank]
        device = int(self.machine.device_of[self.device_of[i]])
        key = (binding.body, device, binding.scale)
        program = self.programs[binding.body]
        if key not in self._costs:
            scaled = bind(program.trace, Binding(binding.body, scale=binding.scale))
            self._costs[key] = self.options.work.costs(scaled, self.machine.devices[device])
        return self._costs[key]

    def _workload(self, classes: Classes, offset: I64, instances: Instances) -> dict[str, Any]:
        members = [int(i) for i in classes.first]
        programs = [self.programs[self.membership.body(i)] for i in members]
        lanes = np.r_[0, np.cumsum([len(p.lane_kind) for p in programs])].astype(np.int64)
        kind = _concat([p.kind for p in programs], np.int8)
        for rows in instances.plain:
            kind[rows] = PLAIN
        return {
            **_edges(programs, offset),
            "duration": _concat([self._durations_of(i) for i in members], np.int64),
            "kind": kind,
            "lane": _shifted([p.lane for p in programs], lanes, np.int32),
            "order": _concat([p.order for p in programs], np.int64),
            "priority": _concat([p.priority for p in programs], np.int32),
            "share": _concat([p.share for p in programs], np.int32),
            "waves": _concat([p.waves for p in programs], np.int64),
            "demand": self._demands(members, programs),
            "launch_of": _shifted([p.launch_of for p in programs], offset, np.int32),
            "instance": instances.of_row,
            "after": np.zeros(0, np.int64),
            "release": np.zeros(0, np.int64),
            "device": np.repeat(np.arange(len(members)), np.diff(offset)).astype(np.int32),
            "lane_kind": _concat([p.lane_kind for p in programs], np.int8),
            "comm_slowdown": np.array([self._slowdown(i) for i in members]),
            "fair": self.options.share_compute,
            "queue_depth": self.machine.software.queue_depth,
            **self._instance_arrays(instances),
            **self._fault_arrays(classes),
        }

    def _demands(self, members: list[int], programs: list[Program]) -> I32:
        """What rows on units draw of their device's memory; none at all where no row names a unit."""
        if not any("unit" in p.trace.column_names for p in programs):
            return np.zeros(0, np.int32)
        return _concat(
            [
                unit_demand(p.trace, self._device(i), self._costs_of(i).ps, self.options.work.name)
                for i, p in zip(members, programs, strict=True)
            ],
            np.int32,
        )

    def _slowdown(self, i: int) -> float:
        """How much communication slows compute beside it; 0 where most times are of a run, which have it."""
        if "measured" in (self.options.communication, self.options.work.name):
            return 0.0
        slowdown = float(self._device(i).comm_slowdown)
        if not slowdown or not has_run(self.traces.card):
            return slowdown
        costs, program = self._costs_of(i), self.programs[self.membership.body(i)]
        works = (program.kind == COMPUTE) & ~on_host(program.trace)
        measured = costs.ps[works & (costs.source == CostSource.MEASURED)].sum()
        return 0.0 if 2 * measured > costs.ps[works].sum() else slowdown

    def _device(self, i: int) -> Any:
        return self.machine.device(int(self.device_of[i]))

    def _instance_arrays(self, instances: Instances) -> dict[str, Any]:
        usual = self.machine.software.collective_overhead
        overhead = [usual if o is None else o for o in instances.overhead]
        counts = [len(j) for j in instances.jobs]
        return {
            "needed": np.array(instances.needed, np.int32),
            "overhead": each_picoseconds(
                np.array(overhead, np.float64), lambda _: "the overhead of a collective"
            ),
            "instance_jobs": np.r_[0, np.cumsum(counts)].astype(np.int64),
            "job_plan": _concat(instances.jobs, np.int32),
            **gate_arrays(instances, self.machine),
        }

    def _fault_arrays(self, classes: Classes) -> dict[str, Any]:
        faults = self.options.disturbance.faults
        rows = [(at, 1, link, factor) for at, link, factor in link_changes(self.machine, faults)]
        for fault in faults:
            if fault.kind == "device":
                assert isinstance(fault.target, int)
                at = picoseconds(fault.at_ns * 1e-9, f"the time of the fault on {fault.target}")
                device = int(classes.rank[self.membership.index[fault.target]])
                rows.append((at, 0, device, fault.factor))
        rows.sort(key=lambda r: r[0])
        columns: Any = list(zip(*rows, strict=True)) or [[], [], [], []]
        return {
            "fault_time": np.array(columns[0], np.int64),
            "fault_is_link": np.array(columns[1], np.int8),
            "fault_target": np.array(columns[2], np.int32),
            "fault_factor": np.array(columns[3], np.float64),
        }

    def _pick(self, classes: Classes, offset: I64) -> Any:
        policy = self.options.dispatch
        if policy is None:
            return None
        durations = [self._durations_of(int(i)) for i in classes.first]

        @cache
        def ready_row(row: int) -> ReadyRow:
            """The row as the policy sees it; cached, as a row that is not chosen is offered again."""
            c = int(np.searchsorted(offset, row, "right")) - 1
            local = row - int(offset[c])
            node = self.programs[self.membership.body(int(classes.first[c]))].trace[local]
            rank = self.membership.ranks[int(classes.first[c])]
            return ReadyRow(rank, local, node.id, node.name, int(durations[c][local]))

        def pick(_lane: int, now: int, rows: list[int]) -> int:
            index = policy.pick([ready_row(row) for row in rows], now)
            if index is None:
                return -1
            if not 0 <= index < len(rows):
                raise ConfigError(
                    f"{type(policy).__name__}.pick chose {index!r} of {len(rows)} ready rows; return an "
                    "index into the list, or None to wait"
                )
            return index

        return pick


def _finished(outcome: Outcome) -> Outcome:
    """Raises a DeadlockError that has the outcome, unless every row has ended."""
    if outcome.stuck:
        error = DeadlockError(outcome.stuck)
        error.simulation = outcome
        raise error
    return outcome


def _concat(parts: list[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.zeros(0, dtype)]).astype(dtype)


def _shifted(parts: list[Any], offset: I64, dtype: Any) -> NDArray[Any]:
    """Numbers within each part, shifted to numbers over all parts; -1 stays."""
    moved = [np.where(p >= 0, p + o, -1) for p, o in zip(parts, offset[:-1], strict=True)]
    return _concat(moved, dtype)


def _edges(programs: list[Program], offset: I64) -> dict[str, Any]:
    parts = [p.edges for p in programs]
    return {
        "src": _concat([e.src + o for e, o in zip(parts, offset[:-1], strict=True)], np.int32),
        "dst": _concat([e.dst + o for e, o in zip(parts, offset[:-1], strict=True)], np.int32),
        "form": _concat([e.form for e in parts], np.int8),
        "lag": _concat([_lags(p) for p in programs], np.int64),
    }


def _lags(program: Program) -> I64:
    """The lags of a rank's edges in ticks."""
    edges, ids = program.edges, program.trace.ids
    return nanoseconds_to_ticks(
        np.asarray(edges.lag, np.int64),
        lambda i: f"the lag from node {ids[edges.src[i]]} to node {ids[edges.dst[i]]}",
    )


def with_bandwidth(machine: Machine, factor: float) -> Machine:
    """The same machine with every link `factor` times as fast."""
    links = replace(machine.links, bandwidth=machine.links.bandwidth * factor)
    return replace(machine, changed_links=links)


def one_collective(kind: int, size: int, members: Sequence[int], root: int = -1) -> TraceSet:
    """A workload in which all members call one collective of `size` bytes, as traces count them."""
    trace = Trace.from_columns(
        {
            "name": ["collective"],
            "type": [NodeType.COMM_COLL_NODE],
            "comm_type": [kind],
            "comm_size": [size],
            "pg_name": ["group"],
            **({"comm_src": [root]} if root >= 0 else {}),
        }
    )
    bindings = {rank: Binding(0, {"group": "1"}) for rank in members}
    return TraceSet([trace], bindings, Groups({"1": list(members)}), Card())
