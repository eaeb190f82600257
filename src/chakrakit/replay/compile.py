"""From a recording to a plan: every operator resolved, every tensor in its slot, everything checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakrakit.errors import TraceError
from chakrakit.replay.communicate import Exchange, read_exchange
from chakrakit.replay.indices import COPIES, index_limits, positive_tensors
from chakrakit.replay.memory import Key, Memory, Version
from chakrakit.replay.plan import (
    FORMAT,
    VERSION,
    AnyStep,
    Call,
    Collective,
    Group,
    Plan,
    StandIn,
    Synchronize,
    Wait,
)
from chakrakit.replay.ranks import World
from chakrakit.replay.recording import Recording
from chakrakit.replay.schema_text import OperatorSchema
from chakrakit.replay.streams import Streams
from chakrakit.replay.tensors import INTEGERS, Tensor, Unsupported
from chakrakit.replay.units import Do, Unit, find_units
from chakrakit.replay.values import plan_value, recorded_tensors
from chakrakit.trace.edges import EdgeKind


@dataclass(frozen=True)
class Options:
    """How to replay.

    mode      full, compute, comm or emulate
    device    cpu or cuda
    nproc     ranks of the replay; 0 for as many as were recorded
    gaps      keep the host's own time between operators
    shrink    keep or scale: what stays as recorded in a group that lost members
    step      which recorded step; -1 for the last
    """

    mode: str = "full"
    device: str = "cpu"
    nproc: int = 0
    gaps: bool = False
    shrink: str = "keep"
    step: int = -1
    backend: str = ""

    @property
    def backend_name(self) -> str:
        """gloo or nccl, unless another was asked for."""
        return self.backend or ("nccl" if self.device == "cuda" else "gloo")


@dataclass
class _Pending:
    """Communication that nobody has waited for yet."""

    work: int
    written: list[Version]
    read: list[Version]


@dataclass
class _Covered:
    """What is replayed of what there is, in rows and in recorded time."""

    count: list[int] = field(default_factory=lambda: [0, 0])
    time_ns: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, replayed: bool, ns: int) -> None:
        self.count = [self.count[0] + replayed, self.count[1] + 1]
        self.time_ns = [self.time_ns[0] + ns * replayed, self.time_ns[1] + ns]


def compile_rank(
    seen: Recording, world: World, rank: int, groups: list[Group], options: Options
) -> Plan:
    """The plan of one rank of the replay."""
    compiler = _Compiler(seen, world, rank, groups, options)
    compiler.run()
    return compiler.plan()


class _Compiler:
    """Goes through the units of a recording once, in order of start.

    A *tick* is a unit: whatever slots it uses are needed until its last step is done.
    """

    def __init__(
        self, seen: Recording, world: World, rank: int, groups: list[Group], options: Options
    ) -> None:
        self.seen, self.world, self.rank, self.options = seen, world, rank, options
        self.groups = groups
        self.memory = Memory()
        self.steps: list[AnyStep] = []
        self.last_step: list[int] = []
        self.pending: list[_Pending] = []
        self.works = 0
        self.covered = _Covered()
        self.on_device = not seen.on_host_only
        self.threads: dict[int, int] = {}
        self.duration = seen.trace.duration_ns.tolist()
        self.streams = Streams(seen)
        self.previous: dict[int, int] = {}
        self.waited = _waited_until(seen)
        self.owned: set[Key] = set()
        """Storages that a communication made for itself: what touches them is part of it."""

    def run(self) -> None:
        units = find_units(self.seen)
        _check_any(units, self.seen, self.options.mode)
        last = max((i for i, u in enumerate(units) if u.do is not Do.SYNCHRONIZE), default=-1)
        for unit in units[: last + 1]:
            self._unit(unit)
            self.last_step.append(len(self.steps) - 1)
        self._end()

    def _unit(self, unit: Unit) -> None:
        before = len(self.steps)
        if unit.do is Do.SYNCHRONIZE:
            self._emit(Synchronize(), unit)
        elif unit.do is Do.COLLECTIVE:
            self._collective(unit)
        elif unit.do is Do.STAND_IN:
            self._stand_in(unit, str(self._name(unit)))
        else:
            self._call(unit)
        self._forget_inside(unit)
        if len(self.steps) > before and self.options.gaps:
            self.steps[before].gap_ns = self._gap(unit)

    def device(self, recorded: str) -> str:
        """Where a recorded device is now."""
        main = recorded.partition(":")[0] == self.seen.main_device
        return self.options.device if main else "cpu"

    @property
    def tick(self) -> int:
        return len(self.last_step)

    def _emit(self, step: AnyStep, unit: Unit) -> None:
        step.thread = self.threads.setdefault(self.seen.threads[unit.row], len(self.threads))
        self.streams.place(step, unit, len(self.steps))
        self.steps.append(step)

    # --- operators ----------------------------------------------------------------------------

    def _call(self, unit: Unit) -> None:
        schema = unit.schema
        assert schema is not None
        if self.options.mode == "comm" or self._belongs_to_communication(unit):
            return
        try:
            call, used = self._prepare(unit, schema)
        except Unsupported as why:
            self._stand_in(unit, f"{schema.full_name} ({why})")
            return
        self._await(unit, used, _written(schema, used))
        self._results(call, unit, schema, used)
        call.ns = self._time(unit)
        self.covered.add(True, call.ns)
        self._emit(call, unit)

    def _prepare(
        self, unit: Unit, schema: OperatorSchema
    ) -> tuple[Call, dict[str, list[Tensor | None]]]:
        """Arguments as the plan writes them, and the tensors among them by argument."""
        place = self.seen.place(unit.row)
        given = self.seen.arguments(unit.row, "inputs")
        if len(given) != len(schema.arguments):
            raise Unsupported(f"{len(given)} arguments for {len(schema.arguments)}")
        call = Call(op=schema.full_name, overload=schema.overload, args=[])
        used: dict[str, list[Tensor | None]] = {}
        plain: dict[str, Any] = {}
        for i, argument in enumerate(schema.arguments):
            mine = used.setdefault(argument.name, [])
            value = plan_value(
                argument, given.item(i), lambda t, m=mine: self._use(t, unit, m), place, self.device
            )
            plain[argument.name] = value
            if not argument.keyword:
                call.args.append(value)
            elif value is not None:
                call.kwargs[argument.name] = value
        self._constrain(schema.name, used, plain)
        return call, used

    def _use(self, tensor: Tensor, unit: Unit, found: list[Tensor | None]) -> int:
        slot, view = self.memory.read(tensor, self.tick)
        if view is not None:
            self._emit(view, unit)
        found.append(tensor)
        return slot

    def _constrain(
        self, name: str, used: dict[str, list[Tensor | None]], plain: dict[str, Any]
    ) -> None:
        for tensor, limit in index_limits(name, used, plain):
            if tensor.dtype in INTEGERS:
                self.memory.limit_index(self.memory.find(tensor), limit)
        for tensor in positive_tensors(name, used):
            self.memory.find(tensor).positive = True

    def _results(
        self, call: Call, unit: Unit, schema: OperatorSchema, used: dict[str, list[Tensor | None]]
    ) -> None:
        inputs = self._versions(t for many in used.values() for t in many)
        for result in self._outputs(unit):
            if isinstance(result, list):
                call.outs.append([self._result(call, t, inputs) for t in result])
            else:
                call.outs.append(self._result(call, result, inputs))
        if schema.name in COPIES:
            self._copied(unit, schema, used, inputs)

    def _result(self, call: Call, tensor: Tensor | None, inputs: list[Version]) -> int | None:
        if tensor is None:
            return None
        slot = self.memory.made(tensor, inputs, self.tick)
        if slot is not None:
            call.made.append(
                (slot, tensor.dtype, list(tensor.shape), list(tensor.strides), tensor.offset)
            )
        return slot

    def _copied(
        self, unit: Unit, schema: OperatorSchema, used: dict[str, list[Tensor | None]],
        inputs: list[Version],
    ) -> None:  # fmt: skip
        results = [t for r in self._outputs(unit) for t in (r if isinstance(r, list) else [r])]
        targets = self._versions([*results, *_written(schema, used)])
        for target in targets:
            target.copied_from += [v for v in inputs if v is not target and v.dtype in INTEGERS]

    def _outputs(self, unit: Unit) -> list[Any]:
        given = self.seen.arguments(unit.row, "outputs")
        place = self.seen.place(unit.row)
        return [x for i in range(len(given)) for x in recorded_tensors(given.item(i), place)]

    def _versions(self, tensors: Iterable[Tensor | None]) -> list[Version]:
        return [self.memory.find(t) for t in tensors if t is not None]

    def _belongs_to_communication(self, unit: Unit) -> bool:
        """gloo's wait copies out of a buffer of its own; the replayed wait does so too."""
        if not self.owned:
            return False
        used: set[Key] = set()
        _collect(self.seen.arguments(unit.row, "inputs").values, used)
        return any(key in self.owned and key not in self.memory.current for key in used)

    # --- what has no operator -----------------------------------------------------------------

    def _stand_in(self, unit: Unit, name: str) -> None:
        ns = self._time(unit) if unit.kernels else self._own(unit)
        self.covered.add(False, ns)
        if self.options.mode == "comm":
            return
        on_device = bool(unit.kernels)
        step = StandIn(name=name, host_ns=ns * (not on_device), device_ns=ns * on_device)
        try:
            results = [t for r in self._outputs(unit) for t in (r if isinstance(r, list) else [r])]
        except Unsupported:
            results = []
        for tensor in results:
            slot = None if tensor is None else self.memory.made(tensor, self._read(unit), self.tick)
            if slot is not None:
                step.made.append((slot, tensor.dtype, list(tensor.shape), list(tensor.strides),
                                  tensor.offset, self.device(tensor.device)))  # fmt: skip
        self._emit(step, unit)

    def _read(self, unit: Unit) -> list[Version]:
        """Versions that a row's inputs lie in, as far as they are known."""
        given = self.seen.arguments(unit.row, "inputs")
        place = self.seen.place(unit.row)
        found: list[Version] = []
        for i in range(len(given)):
            try:
                parts = recorded_tensors(given.item(i), place)
            except Unsupported:
                continue
            flat = (t for p in parts for t in (p if isinstance(p, list) else [p]))
            keys = [(t.device, t.storage) for t in flat if t is not None]
            found += [self.memory.current[k] for k in keys if k in self.memory.current]
        return found

    def _own(self, unit: Unit) -> int:
        """Time of the row itself; operators inside an opened one are replayed."""
        return int(self.seen.trace.own_ns[unit.row])

    def _name(self, unit: Unit) -> str:
        kernels = [k for k in unit.kernels if not self.seen.schemas[unit.row]]
        return self.seen.names[kernels[0] if kernels else unit.row]

    # --- communication ------------------------------------------------------------------------

    def _collective(self, unit: Unit) -> None:
        exchange = read_exchange(self.seen, unit, self.world, self.rank, self.groups, self.options.shrink)
        if self.options.mode == "compute":
            for result in exchange.fresh:
                self.memory.forget((result.device, result.storage))
            return
        ns = max([self.duration[r] for r in exchange.rows] or [self.duration[unit.row]])
        self.covered.add(not exchange.missing, ns)
        if exchange.missing:
            self._drop(exchange, unit, ns)
        elif exchange.functional:
            self._functional(exchange, unit, ns)
        else:
            self._issue(exchange, unit, ns)

    def _drop(self, exchange: Exchange, unit: Unit, ns: int) -> None:
        """A message to a rank that is not here takes its time and goes nowhere."""
        self._emit(StandIn(name=exchange.missing, host_ns=0 if self.on_device else ns), unit)

    def _functional(self, exchange: Exchange, unit: Unit, ns: int) -> None:
        schema = unit.schema
        assert schema is not None
        call, used = self._prepare(unit, schema)
        for i, argument in enumerate(schema.arguments):
            if argument.name == "group_name":
                call.args[i] = {"group": exchange.group}
        self._await(unit, used, _written(schema, used))
        self._results(call, unit, schema, used)
        call.ns = ns
        self._emit(call, unit)

    def _issue(self, exchange: Exchange, unit: Unit, ns: int) -> None:
        for result in exchange.fresh:
            self._make(result, unit)
        slots = {t: self._use(t, unit, []) for t in (*exchange.inputs, *exchange.outputs)}
        read, written = self._versions(exchange.inputs), self._versions(exchange.outputs)
        self._settle(unit, [*read, *written], written)
        made = exchange.step(self.works, [slots[t] for t in exchange.inputs],
                             [slots[t] for t in exchange.outputs], ns)  # fmt: skip
        self._emit(made, unit)
        if not made.wait:
            self.pending.append(_Pending(self.works, written, read))
        self.works += 1

    def _make(self, tensor: Tensor, unit: Unit) -> None:
        """A result that the operator would have made itself."""
        slot = self.memory.made(tensor, [], self.tick)
        size, strides = list(tensor.shape), list(tensor.strides)
        call = Call(op="aten::empty_strided", overload="", args=[size, strides], outs=[slot])
        call.kwargs = {"dtype": {"dtype": tensor.dtype}, "device": {"device": self.device(tensor.device)}}
        self._emit(call, unit)

    def _await(
        self, unit: Unit, used: dict[str, list[Tensor | None]], written: Iterable[Tensor | None]
    ) -> None:
        touched = self._versions(t for many in used.values() for t in many)
        self._settle(unit, touched, self._versions(written))

    def _settle(self, unit: Unit, touched: list[Version], written: list[Version]) -> None:
        """Wait for communication whose results are touched or whose sources are overwritten."""
        for work in list(self.pending):
            if _share(work.written, touched) or _share(work.read, written):
                self.pending.remove(work)
                self._emit(Wait(work=work.work), unit)

    def _end(self) -> None:
        """At the end of an iteration all communication is over."""
        thread = self.steps[-1].thread if self.steps else 0
        self.steps += [Wait(work=p.work, thread=thread) for p in self.pending]
        self.last_step.append(len(self.steps) - 1)

    # --- the rest -----------------------------------------------------------------------------

    def _time(self, unit: Unit) -> int:
        """What the unit took where the work is done."""
        if self.on_device:
            return sum(self.duration[k] for k in unit.kernels)
        return int(self.duration[unit.row])

    def _gap(self, unit: Unit) -> int:
        """The host's own time since the unit before it on its thread."""
        thread, start = self.seen.threads[unit.row], int(self.seen.trace.start_ns[unit.row])
        before = self.previous.get(thread)
        self.previous[thread] = start + self.duration[unit.row]
        if before is None:
            return 0
        return max(0, start - max(before, self.waited.get(unit.row, 0)))

    def _forget_inside(self, unit: Unit) -> None:
        """What was made inside and is no result took the place of something that was free."""
        kept = self.memory.used_now(self.tick)
        for row in unit.inside:
            for key in _made_keys(self.seen, row):
                if unit.do is Do.COLLECTIVE:
                    self.owned.add(key)
                found = self.memory.current.get(key)
                if found is not None and id(found) not in kept:
                    self.memory.forget(key)

    def plan(self) -> Plan:
        for slot, tick in self.memory.last_use.items():
            if not self.memory.version_of[slot].external:
                step = self.steps[self.last_step[tick]]
                step.free = [*step.free, slot]
        return Plan(
            format=FORMAT, version=VERSION, mode=self.options.mode, rank=self.rank,
            recorded_rank=self.seen.rank, world=self.world.size, device=self.options.device,
            backend=self.options.backend_name, groups=self.groups,
            externals=self.memory.externals(self.device), slots=len(self.memory.version_of),
            steps=self.steps, memory=self.memory.peak(len(self.last_step), self.device),
            count=self.covered.count, time_ns=self.covered.time_ns,
        )  # fmt: skip


def _check_any(units: list[Unit], seen: Recording, mode: str) -> None:
    wanted = {
        "full": (Do.CALL, Do.COLLECTIVE), "compute": (Do.CALL,), "comm": (Do.COLLECTIVE,),
    }[mode]  # fmt: skip
    if any(u.do in wanted for u in units):
        return
    unknown = next((seen.place(u.row) for u in units), f"rank {seen.rank}")
    raise TraceError(
        f"{unknown}: nothing here is an operator that replay knows with the arguments it was called "
        "with; record with PyTorch's execution-trace observer (chakra collect), or use --mode emulate"
    )


def _share(left: list[Version], right: list[Version]) -> bool:
    return any(a is b for a in left for b in right)


def _written(
    schema: OperatorSchema, used: dict[str, list[Tensor | None]]
) -> list[Tensor | None]:
    return [t for a in schema.arguments if a.written for t in used.get(a.name, [])]


def _made_keys(seen: Recording, row: int) -> list[tuple[str, int]]:
    """Storages that a row gives as results and was not given."""
    sides = []
    for side in ("outputs", "inputs"):
        keys: set[tuple[str, int]] = set()
        _collect(seen.arguments(row, side).values, keys)
        sides.append(keys)
    return list(sides[0] - sides[1])


def _collect(value: Any, keys: set[tuple[str, int]]) -> None:
    from chakrakit.replay.tensors import is_tensor

    if is_tensor(value):
        keys.add((value[5], value[1]))
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, keys)


def _waited_until(seen: Recording) -> dict[int, int]:
    """Row → end of the communication its thread waited for just before it."""
    edges = seen.trace.edges
    rows = np.flatnonzero(edges.kind == int(EdgeKind.SYNC))
    end = seen.trace.end_ns
    return {
        int(d): int(end[s]) for s, d in zip(edges.src[rows], edges.dst[rows], strict=True)
    }
