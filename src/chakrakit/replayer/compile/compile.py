"""From a recording to a plan: every operator resolved, every tensor in its slot, everything checked."""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import TraceError
from chakrakit.replayer.compile.builder import Builder
from chakrakit.replayer.compile.communicate import ReplayedExchange, read_exchange
from chakrakit.replayer.compile.exchanged import PlanPlace, exchanged_of
from chakrakit.replayer.compile.generated import GeneratedSteps, GraphMaker, is_generated
from chakrakit.replayer.compile.indices import (
    COPIES,
    NUMBERS,
    WITH_NUMBERS,
    index_limits,
    positive_tensors,
    told_limits,
    unit_tensors,
)
from chakrakit.replayer.compile.memory import Version, contiguous
from chakrakit.replayer.options import ReplayOptions
from chakrakit.replayer.plan import (
    FORMAT,
    VERSION,
    Call,
    GeneratedCode,
    Kernel,
    ProcessGroup,
    ReplayPlan,
    StandIn,
    Synchronize,
)
from chakrakit.replayer.ranks import ReplayWorld
from chakrakit.replayer.recording import RecordedArguments, RecordedRows
from chakrakit.replayer.tensors import (
    INTEGERS,
    OperatorSchema,
    StorageView,
    Unsupported,
    parse_schema,
    plan_value,
    recorded_tensors,
    storages_in,
    tensor_type,
)
from chakrakit.replayer.units import Do, ReplayUnit, find_units
from chakrakit.trace.model import EdgeKind

Used = dict[str, list[StorageView | None]]
"""Tensors a call was given, by argument."""


def compile_rank(
    seen: RecordedRows,
    world: ReplayWorld,
    rank: int,
    groups: list[ProcessGroup],
    options: ReplayOptions,
) -> ReplayPlan:
    """The plan of one rank of the replay."""
    compiler = _Compiler(seen, world, rank, groups, options)
    compiler.run()
    return compiler.plan()


class _Compiler:
    """Goes through the units of a recording once, in order of start."""

    def __init__(
        self,
        seen: RecordedRows,
        world: ReplayWorld,
        rank: int,
        groups: list[ProcessGroup],
        options: ReplayOptions,
    ) -> None:
        self.seen, self.world, self.rank = seen, world, rank
        self.groups, self.options = groups, options
        self.build = Builder(seen, options)
        self.count, self.time_ns = [0, 0], [0, 0]
        self.gaps = _Gaps(seen)
        self.codes: dict[str, GeneratedCode] = {}
        self.graphs = GraphMaker(seen, self.build)

    def run(self) -> None:
        """All of the rank's step."""
        if is_generated(self.seen):
            place = PlanPlace(self.seen, self.world, self.rank, self.groups, self.options.shrink)
            made = GeneratedSteps(self.seen, self.build, partial(exchanged_of, place))
            made.run()
            self.count, self.time_ns = made.count, made.time_ns
        else:
            self._recorded()

    def _recorded(self) -> None:
        units = find_units(self.seen)
        if not any(self.graphs.is_graph(u) for u in units):
            _check_any(units, self.seen, self.options.mode)
        # The wait at the end of a step is whoever recorded it, who waited for the device.
        last = max((i for i, u in enumerate(units) if u.do is not Do.SYNCHRONIZE), default=-1)
        for unit in units[: last + 1]:
            before = len(self.build.steps)
            self._unit(unit)
            gap = self.gaps.before(unit)
            if self.options.gaps and len(self.build.steps) > before:
                self.build.steps[before].gap_ns = gap
            self.build.next_unit(unit)
        self.build.end()

    def _unit(self, unit: ReplayUnit) -> None:
        if unit.do is Do.SYNCHRONIZE:
            self.build.emit(Synchronize(), unit)
        elif unit.do is Do.COLLECTIVE:
            self._collective(unit)
        elif unit.do is Do.STAND_IN:
            self._without_operator(unit)
        elif not self.build.belongs_to_communication(unit):
            self._call(unit)

    def _covered(self, replayed: bool, ns: int) -> None:
        self.count = [self.count[0] + replayed, self.count[1] + 1]
        self.time_ns = [self.time_ns[0] + ns * replayed, self.time_ns[1] + ns]

    # --- operators ----------------------------------------------------------------------------

    def _call(self, unit: ReplayUnit, group: int | None = None, ns: int = -1) -> None:
        schema = unit.schema
        assert schema is not None
        try:
            call, used = self._prepare(unit, schema)
            results = self._outputs(unit)
        except Unsupported as why:
            self._stand_in(unit, f"{schema.full_name} ({why})")
            return
        for i, argument in enumerate(schema.arguments):
            if group is not None and argument.name == "group_name":
                call.args[i] = {"group": group}
        given = self.build.versions(t for many in used.values() for t in many)
        written = self.build.versions(
            t for a in schema.arguments if a.written for t in used[a.name]
        )
        self.build.wait_for_pending(unit, given, written)
        self._pin(unit, given)
        made = self._results(call, results, given)
        if schema.name in COPIES:
            _copy_limits(given, [*made, *written])
        call.ns = _time(self.seen, unit) if ns < 0 else ns
        self._covered(True, call.ns)
        self.build.emit(call, unit, [*made, *written])

    def _prepare(self, unit: ReplayUnit, schema: OperatorSchema) -> tuple[Call, Used]:
        """Arguments as the plan writes them, and the tensors among them."""
        place = self.seen.place(unit.row)
        given = self.seen.arguments(unit.row, "inputs")
        handed = self._handed(unit, given)
        if len(given) != len(schema.arguments) + handed:
            raise Unsupported(f"{len(given)} arguments for {len(schema.arguments)}")
        call = Call(op=schema.full_name, overload=schema.overload, args=[])
        used: Used = {a.name: [] for a in schema.arguments}
        plain: dict[str, Any] = {}
        for i, argument in enumerate(schema.arguments):
            found = used[argument.name]
            value = self._number(schema.name, i, given.item(i))
            if value is None:
                use = partial(self._use, unit, found)
                value = plan_value(argument, given.item(i), use, place, self.build.device)
            if isinstance(value, list):  # an item that is not there keeps its place
                items = iter(list(found))
                found[:] = [next(items, None) if v is not None else None for v in value]
            plain[argument.name] = value
            if not argument.keyword:
                call.args.append(value)
            elif value is not None:
                call.kwargs[argument.name] = value
        self._constrain(schema.name, used, plain)
        for tensor, limit in told_limits(self.seen.texts("tensor_range")[unit.row], used):
            self.build.memory.limit_index(self.build.memory.find(tensor), limit)
        return call, used

    def _handed(self, unit: ReplayUnit, given: RecordedArguments) -> bool:
        """Whether a call was handed all of a storage for its result, so that it can make it itself."""
        recorded = parse_schema(self.seen.schemas[unit.row])
        if recorded is None or recorded.without_out is None or not len(given):
            return False
        place = self.seen.place(unit.row)
        (out,) = recorded_tensors(given.item(len(given) - 1), place)
        if not isinstance(out, StorageView) or out.offset or out.strides != contiguous(out.shape):
            raise Unsupported("its result goes into a part of other memory")
        there = self.build.memory.current.get((out.device, out.storage))
        if there is not None and there.bytes > out.extent:
            raise Unsupported("its result goes into a part of other memory")
        return True

    def _number(self, name: str, place: int, item: tuple[Any, Any, str, Any]) -> float | int | None:
        """A number that was recorded as the tensor PyTorch makes of it; which one, nobody wrote down."""
        value, shape, kind, _ = item
        if not place or name not in WITH_NUMBERS or shape != [] or kind not in NUMBERS:
            return None
        if not isinstance(value, list) or not storages_in(value):
            return None
        ((device, storage),) = storages_in(value)
        known = self.build.memory.current.get((device, storage))
        dtype = tensor_type(kind)
        there = known is not None and not known.external and (dtype, (), (), 0) in known.slots
        return NUMBERS[kind] if device == "cpu" and not there else None

    def _use(self, unit: ReplayUnit, found: list[StorageView | None], tensor: StorageView) -> int:
        found.append(tensor)
        return self.build.use(tensor, unit)

    def _constrain(self, name: str, used: Used, plain: dict[str, Any]) -> None:
        memory = self.build.memory
        for tensor, limit in index_limits(name, used, plain):
            if tensor.dtype in INTEGERS:
                memory.limit_index(memory.find(tensor), limit)
        for tensor in positive_tensors(name, used):
            memory.find(tensor).positive = True
        for tensor in unit_tensors(name, used):
            memory.find(tensor).unit = True

    def _pin(self, unit: ReplayUnit, given: list[Version]) -> None:
        """Host memory that a copy names as pinned was so before the step."""
        if any("Pinned" in self.seen.names[k] for k in unit.kernels):
            for version in given:
                version.pinned = version.pinned or version.device.startswith("cpu")

    def _outputs(self, unit: ReplayUnit) -> list[Any]:
        """Recorded results: a Tensor, None for what is no tensor, or a list of those."""
        given = self.seen.arguments(unit.row, "outputs")
        place = self.seen.place(unit.row)
        return [x for i in range(len(given)) for x in recorded_tensors(given.item(i), place)]

    def _results(self, call: Call, results: list[Any], given: list[Version]) -> list[Version]:
        """Slots for the results; gives the storages they lie in."""
        made: list[Version] = []
        for result in results:
            many = result if isinstance(result, list) else [result]
            slots = [self._result(call, t, given, made) for t in many]
            call.outs.append(slots if isinstance(result, list) else slots[0])
        return made

    def _result(
        self, call: Call, tensor: StorageView | None, given: list[Version], made: list[Version]
    ) -> int | None:
        if tensor is None:
            return None
        slot = self.build.memory.made(tensor, given, self.build.tick)
        made.append(self.build.memory.find(tensor))
        if slot is not None:
            call.made.append((slot, *tensor.lists))
        return slot

    # --- what has no operator -----------------------------------------------------------------

    def _without_operator(self, unit: ReplayUnit) -> None:
        """A graph is launched again from what was captured in it; all else takes as long as it took."""
        if not self.graphs.is_graph(unit):
            if not self._kernel(unit):
                self._stand_in(unit, _name(self.seen, unit))
            return
        for step, ns in self.graphs.steps(unit):
            self._covered(isinstance(step, Call), ns)
            self.build.emit(step, unit)

    def _kernel(self, unit: ReplayUnit) -> bool:
        """Whether a generated kernel is launched from its code, as whoever replays allowed."""
        if not self.options.allow_generated_code or self.options.device != "cuda":
            return False
        stem = PurePath(self.seen.texts("kernel_file")[unit.row]).stem
        code = self.seen.generated.get(stem)
        grids = [self.seen.texts("grid")[k] for k in unit.kernels]
        if code is None or not code.plain or len(grids) != 1:
            return False
        given = self.seen.arguments(unit.row, "inputs")
        used: list[StorageView | None] = []
        try:
            grid = msgspec.json.decode(grids[0], type=tuple[int, int, int])
            args = self._kernel_arguments(unit, code, given, used)
        except (Unsupported, msgspec.DecodeError):
            return False
        touched = self.build.versions(used)
        self.build.wait_for_pending(unit, touched, touched)
        self.codes[stem] = code
        ns = _time(self.seen, unit)
        self._covered(True, ns)
        self.build.emit(
            Kernel(op=code.name, code=stem, args=args, grid=list(grid), ns=ns), unit, touched
        )
        return True

    def _kernel_arguments(
        self,
        unit: ReplayUnit,
        code: GeneratedCode,
        given: RecordedArguments,
        used: list[StorageView | None],
    ) -> list[Any]:
        """What a kernel's parameters are: slots and numbers; constants of the compiler are in its code."""
        if len(given) < len(code.arguments):
            raise Unsupported(f"{len(given)} arguments for {len(code.arguments)}")
        args: list[Any] = []
        for i, (_, kind) in enumerate(code.arguments):
            value, shape, type_, strides = given.item(i)
            if kind.startswith("*"):
                (tensor,) = recorded_tensors(
                    (value, shape, type_, strides), self.seen.place(unit.row)
                )
                if not isinstance(tensor, StorageView):
                    raise Unsupported("a pointer to no tensor")
                args.append({"slot": self._use(unit, used, tensor)})
            elif _NUMBER.fullmatch(kind) and isinstance(value, int | float):
                args.append(value)
            elif kind != "constexpr":
                raise Unsupported(f"an argument of type {kind}")
        return args

    def _stand_in(self, unit: ReplayUnit, name: str) -> None:
        """As long as it took, and what it gave, empty."""
        on_device = bool(unit.kernels)
        own = int(self.seen.trace.own_ns[unit.row])  # without what it called, which is replayed
        ns = _time(self.seen, unit) if on_device else own
        self._covered(False, ns)
        step = StandIn(name=name, host_ns=ns * (not on_device), device_ns=ns * on_device)
        for tensor in self._known(unit, "outputs"):
            slot = self.build.memory.made(tensor, self._there(unit), self.build.tick)
            if slot is not None:
                step.made.append((slot, *tensor.lists, self.build.device(tensor.device)))
        self.build.emit(step, unit)

    def _there(self, unit: ReplayUnit) -> list[Version]:
        """Storages that a row's inputs lie in, as far as they are known."""
        current = self.build.memory.current
        keys = [(t.device, t.storage) for t in self._known(unit, "inputs")]
        return [current[k] for k in keys if k in current]

    def _known(self, unit: ReplayUnit, side: str) -> list[StorageView]:
        """Tensors of one side that can be made sense of."""
        given, place = self.seen.arguments(unit.row, side), self.seen.place(unit.row)
        found: list[Any] = []
        for i in range(len(given)):
            try:
                found += recorded_tensors(given.item(i), place)
            except Unsupported:
                continue
        flat = (t for f in found for t in (f if isinstance(f, list) else [f]))
        return [t for t in flat if t is not None]

    # --- communication ------------------------------------------------------------------------

    def _collective(self, unit: ReplayUnit) -> None:
        exchange = read_exchange(
            self.seen, unit, self.world, self.rank, self.groups, self.options.shrink
        )
        if self.options.mode == "compute":
            for result in exchange.fresh:
                self.build.memory.forget((result.device, result.storage))
            return
        duration = self.seen.trace.duration_ns
        ns = max(int(duration[r]) for r in (exchange.rows or [unit.row]))
        if exchange.functional:
            self._call(unit, exchange.group, ns)
            return
        self._covered(not exchange.missing, ns)
        if exchange.missing:
            self.build.emit(StandIn(name=exchange.missing, host_ns=ns), unit)
        else:
            self._issue(exchange, unit, ns)

    def _issue(self, exchange: ReplayedExchange, unit: ReplayUnit, ns: int) -> None:
        build = self.build
        for result in exchange.fresh:
            self._make(result, unit)
        slots = {t: build.use(t, unit) for t in (*exchange.inputs, *exchange.outputs)}
        read, written = build.versions(exchange.inputs), build.versions(exchange.outputs)
        build.wait_for_pending(unit, [*read, *written], written)
        step = exchange.step(
            build.works,
            [slots[t] for t in exchange.inputs],
            [slots[t] for t in exchange.outputs],
            ns,
        )
        build.emit(step, unit, written)
        if not step.wait:
            build.started(read, written)
        build.works += 1

    def _make(self, tensor: StorageView, unit: ReplayUnit) -> None:
        """A result that the operator would have made itself."""
        _, shape, strides, _ = tensor.lists
        call = Call(op="aten::empty_strided", overload="", args=[shape, strides])
        where = {"device": self.build.device(tensor.device)}
        call.kwargs = {"dtype": {"dtype": tensor.dtype}, "device": where}
        call.outs = [self._result(call, tensor, [], [])]
        self.build.emit(call, unit)

    def plan(self) -> ReplayPlan:
        """All of it."""
        memory, options = self.build.memory, self.options
        return ReplayPlan(
            format=FORMAT,
            version=VERSION,
            mode=options.mode,
            rank=self.rank,
            recorded_rank=self.seen.rank,
            world=self.world.size,
            device=options.device,
            backend=options.backend_name,
            groups=self.groups,
            settings=dict(self.seen.settings),
            externals=memory.externals(self.build.device),
            slots=len(memory.version_of),
            steps=self.build.steps,
            memory=memory.peak(self.build.tick, self.build.device),
            count=self.count,
            time_ns=self.time_ns,
            codes=self.codes,
        )


_NUMBER = re.compile(r"(i|u|fp)\d+")
"""How Triton names the types of parameters that are numbers."""


class _Gaps:
    """The host's own time between units of a thread: not its waiting for communication."""

    def __init__(self, seen: RecordedRows) -> None:
        self._seen = seen
        self._end: dict[int, int] = {}
        edges, end = seen.trace.edges, seen.trace.end_ns
        rows = np.flatnonzero(edges.kind == int(EdgeKind.SYNC))
        pairs = zip(edges.src[rows].tolist(), edges.dst[rows].tolist(), strict=True)
        self._waited = {dst: int(end[src]) for src, dst in pairs}

    def before(self, unit: ReplayUnit) -> int:
        """Nanoseconds since the unit before it on its thread; 0 for the first."""
        thread, start = self._seen.threads[unit.row], int(self._seen.trace.start_ns[unit.row])
        before = self._end.get(thread, start)
        self._end[thread] = int(self._seen.trace.end_ns[unit.row])
        return max(0, start - max(before, self._waited.get(unit.row, 0)))


def _check_any(units: list[ReplayUnit], seen: RecordedRows, mode: str) -> None:
    wanted = (Do.CALL,) if mode == "compute" else (Do.CALL, Do.COLLECTIVE)
    if any(u.do in wanted for u in units):
        return
    unknown = next((seen.place(u.row) for u in units), f"rank {seen.rank}")
    raise TraceError(
        f"{unknown}: nothing here is an operator that replay knows, with the arguments it had; "
        "record with PyTorch's execution-trace observer (chakra collect), or use --mode emulate"
    )


def _time(seen: RecordedRows, unit: ReplayUnit) -> int:
    """What a unit took where the work is done."""
    duration = seen.trace.duration_ns
    if seen.on_host_only:
        return int(duration[unit.row])
    return sum(int(duration[k]) for k in unit.kernels)


def _name(seen: RecordedRows, unit: ReplayUnit) -> str:
    """A kernel that no operator launched goes by its own name."""
    bare = unit.kernels and not seen.schemas[unit.row]
    return seen.names[unit.kernels[0] if bare else unit.row]


def _copy_limits(given: list[Version], targets: list[Version]) -> None:
    for target in targets:
        target.copied_from += [v for v in given if v is not target and v.dtype in INTEGERS]
