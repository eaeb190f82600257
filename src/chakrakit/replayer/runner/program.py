"""A plan made ready to run: operators looked up, arguments laid out, one closure per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence
from typing import Any

from .calls import ArgumentLayout, Bindings, Do, bind, constant, data_type, find_operator
from .collectives import issue
from .guard import Guard, MemoryBudget, Refused, written_by
from .kernels import GeneratedKernel, KernelError
from .limits import ReplayError, check_operator
from .spin import cycles_per_ns, spin_host
from .storages import bounded

GROUP_MARK = "chakra:group="
"""What the linker takes a collective's group from: gloo's own records name none."""

_FAILURES = (
    RuntimeError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    KernelError,
)
"""What PyTorch, and the guard's own rules, may raise over arguments that do not fit."""


class PlanProgram:
    """Steps of a plan as functions without arguments, on the tensors in `slots`.

    `check` runs them once, slowly: what the guard refuses and what PyTorch fails at is replaced by a
    stand-in, and so is a result that has another shape than was recorded. After that `run` does an
    iteration.
    """

    def __init__(
        self,
        torch: Any,
        plan: dict[str, Any],
        device: str,
        groups: list[Any],
        budget: MemoryBudget,
        position: MutableSequence[int] | None = None,
        generated: bool = False,
    ) -> None:
        self.torch, self.plan, self.device, self.groups = torch, plan, device, groups
        self._position = position if position is not None else [0, 0]
        self.slots: list[Any] = [None] * plan["slots"]
        self.works: dict[int, Any] = {}
        self.marking = False
        self._generated = generated
        self._kernels: dict[str, GeneratedKernel] = {}
        self.on_device = device.startswith("cuda")
        self.guard = Guard(torch, budget)
        self._rate = cycles_per_ns(torch) if self.on_device else 0.0
        self.not_covered: list[dict[str, Any]] = []
        self._operators: dict[int, Any] = {}
        self._graphs: list[Any] = []
        self._unplaced: dict[int, Do] = {}
        self._awaited = {c for s in plan["steps"] for c in s.get("after", [])}
        self._streams, self._events = self._make_streams()
        self.steps = [self._finished(i, self._make(i, s)) for i, s in enumerate(plan["steps"])]

    def run(self) -> None:
        """One iteration."""
        for step in self.steps:
            step()

    # --- the first iteration ------------------------------------------------------------------

    def check(self, before: Callable[[dict[str, Any]], None] = lambda step: None) -> None:
        """One iteration that finds out what cannot be done as recorded; `before` is called at each step."""
        bindings = Bindings(self.torch)
        for i, step in enumerate(self.plan["steps"]):
            self._position[1] = i + 1
            before(step)
            try:
                why = self._first_time(i, step, bindings)
            except Refused as refused:
                why = str(refused)
            except _FAILURES as error:
                if step["do"] not in ("call", "kernel") or _fatal(self.torch, error):
                    raise ReplayError(f"step {i} ({step.get('op', step['do'])}): {error}") from None
                why = str(error).partition("\n")[0] or type(error).__name__
            if why:
                self._replace(i, step, why)
            self._account(step)

    def _first_time(self, i: int, step: dict[str, Any], bindings: Bindings) -> str:
        """Do a step after looking at what it would do; gives how its results differ, if they do."""
        operator = self._operators.get(i)
        if operator is None:
            self._ask_for(step)
            self.steps[i]()
            return ""
        given = self._given(operator, step)
        replaced = self.guard.examine(operator, given, _kept_shapes(step))
        step = self._with_constants(operator, step, replaced)
        self._set(i, self._bound(operator._op, step))
        before = [_layout(t) for t in written_by(operator, given)]
        if not self._shortened(i, step, bindings):
            self.steps[i]()
        if before != [_layout(t) for t in written_by(operator, given)]:
            raise ReplayError(f"step {i} ({step['op']}) resizes what it was given")
        flat = [self.slots[s] if s is not None else None for s in _flat(step.get("outs", []))]
        self.guard.done(operator, given, flat)
        return self._unlike(step)

    def _given(self, operator: Any, step: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a call by name."""
        positional, named = self._layouts(step)
        names = [a.name for a in operator._schema.arguments if not a.kwarg_only]
        values = positional.fill(self.slots)
        if len(values) > len(names):
            raise Refused(f"{len(values)} arguments for {len(names)}")
        given = dict(zip(names, values, strict=False))
        return given | dict(zip(step.get("kwargs", {}), named.fill(self.slots), strict=True))

    def _with_constants(
        self, operator: Any, step: dict[str, Any], replaced: dict[tuple[str, int], Any]
    ) -> dict[str, Any]:
        """The step with tensors of the guard's in the place of some of its arguments."""
        if not replaced:
            return step
        names = [a.name for a in operator._schema.arguments if not a.kwarg_only]
        args, kwargs = list(step["args"]), dict(step.get("kwargs", {}))
        for (name, place), tensor in replaced.items():
            self.slots.append(tensor)
            value: Any = {"slot": len(self.slots) - 1}
            home: Any = kwargs if name in kwargs else args
            key: Any = name if name in kwargs else names.index(name)
            if place >= 0:
                value = [value if i == place else v for i, v in enumerate(home[key])]
            home[key] = value
        return {**step, "args": args, "kwargs": kwargs}

    def _ask_for(self, step: dict[str, Any]) -> None:
        """Room for what a stand-in makes."""
        for _, dtype, shape, strides, offset, *where in step.get("made", []):
            size = _extent(shape, strides, offset) * data_type(self.torch, dtype).itemsize
            self.guard.budget.ask(where[0] if where else self.device, size)

    def _account(self, step: dict[str, Any]) -> None:
        """What is held after a step."""
        budget = self.guard.budget
        made = [m[0] for m in step.get("made", [])] + [step[k] for k in ("slot",) if k in step]
        for slot in made:
            if self.slots[slot] is not None:
                budget.put(slot, self.slots[slot])
                if step["do"] == "stand_in":
                    self.guard.ranges.put(self.slots[slot], None)
        for slot in step.get("free", []):
            budget.drop(slot)

    def _shortened(self, i: int, step: dict[str, Any], bindings: Bindings) -> bool:
        """Whether a shorter way to this step's operator was found, and taken once."""
        operator = self._operators.get(i)
        short = bindings.candidate(step) if operator is not None else None
        placed = any(step.get(k) for k in ("gap_ns", "stream", "after")) or i in self._awaited
        if short is None or placed or bindings.knows_not(step):
            return False
        trial = self._bound(short, {**step, "free": []})
        if not bindings.same(operator, step, trial):
            return False
        self.steps[i] = self._bound(short, step)
        for slot in step.get("free", []):
            self.slots[slot] = None
        return True

    # --- steps --------------------------------------------------------------------------------

    def _make(self, i: int, step: dict[str, Any]) -> Do:
        do: Do = _MAKERS[step["do"]](self, i, step)
        return do

    def _set(self, i: int, do: Do) -> None:
        """Let a step be done so from now on."""
        self.steps[i] = self._finished(i, do)

    def _finished(self, i: int, do: Do) -> Do:
        """After the host's own time, and on its stream."""
        gap = self.plan["steps"][i].get("gap_ns", 0)
        self._unplaced[i] = do
        if not gap:
            return self._placed(i, do)

        def after_gap() -> None:
            spin_host(gap)
            do()

        return self._placed(i, after_gap)

    def _call(self, i: int, step: dict[str, Any]) -> Do:
        check_operator(step, i)
        if step["op"] == _ALIAS:  # PyTorch does not hold it against the storage; this it does
            step.update(op="aten::as_strided", overload="", args=[*step["args"][:3]], kwargs={})
        found = find_operator(self.torch, step)
        if found is None:
            return self._instead(step, f"this PyTorch has no {step['op']}.{step['overload']}")
        try:
            call = self._bound(found._op, step)
        except (TypeError, ValueError) as error:
            return self._instead(step, str(error))
        self._operators[i] = found
        return call

    def _bound(self, operator: Callable[..., Any], step: dict[str, Any]) -> Do:
        """The operator with its arguments laid out."""
        return bind(operator, step, self.slots, *self._layouts(step))

    def _layouts(self, step: dict[str, Any]) -> tuple[ArgumentLayout, ArgumentLayout]:
        """Where a call's arguments come from, those by place and those by name."""

        def plain(value: Any) -> Any:
            return constant(self.torch, value, self.device, self.groups)

        named = list(step.get("kwargs", {}).values())
        return ArgumentLayout(step["args"], plain), ArgumentLayout(named, plain)

    def _view(self, i: int, step: dict[str, Any]) -> Do:
        slots, base, slot = self.slots, step["base"], step["slot"]
        shape, strides, offset = step["shape"], step["strides"], step["offset"]
        dtype, free = data_type(self.torch, step["dtype"]), step.get("free", [])

        def do() -> None:
            slots[slot] = bounded(self.torch, slots[base], dtype, shape, strides, offset)
            for s in free:
                slots[s] = None

        return do

    def _collective(self, i: int, step: dict[str, Any]) -> Do:
        slots, works, number = self.slots, self.works, step["work"]
        group = self.groups[step["group"]]
        inputs, outputs, free = step["inputs"], step["outputs"], step.get("free", [])
        mark = GROUP_MARK + group.group_name
        scope = self.torch.profiler.record_function

        def start() -> Any:
            return issue(group, step, [slots[s] for s in inputs], [slots[s] for s in outputs])

        def do() -> None:
            if self.marking:
                with scope(mark):
                    work = start()
            else:
                work = start()
            if step.get("wait") and work is not None:
                work.wait()
            else:
                works[number] = work
            for slot in free:
                slots[slot] = None

        return do

    def _wait(self, i: int, step: dict[str, Any]) -> Do:
        slots, works, number, free = self.slots, self.works, step["work"], step.get("free", [])

        def do() -> None:
            work = works.pop(number, None)
            if work is not None:
                work.wait()
            for slot in free:
                slots[slot] = None

        return do

    def _stand_in(self, i: int, step: dict[str, Any]) -> Do:
        made = [(m[0], self._empty(*m[1:])) for m in step.get("made", [])]
        slots, free, host = self.slots, step.get("free", []), step.get("host_ns", 0)
        device = step.get("device_ns", 0)
        cycles = int(device * self._rate)

        def do() -> None:
            for slot, make in made:
                slots[slot] = make()
            if cycles:
                self.torch.cuda._sleep(cycles)
            else:
                spin_host(host or device)
            for slot in free:
                slots[slot] = None

        return do

    def _kernel(self, i: int, step: dict[str, Any]) -> Do:
        """A launch of generated code, where whoever runs this allowed it; else as long as it took."""
        if not self._generated or not self.on_device:
            return self._instead(step, "generated code, which --allow-generated-code runs")
        try:
            kernel = self._loaded(step["code"])
        except (KernelError, OSError) as error:
            return self._instead(step, str(error))
        slots, args, grid, free = self.slots, step["args"], step["grid"], step.get("free", [])
        stream_of = self.torch.cuda.current_stream

        def do() -> None:
            values = [slots[a["slot"]].data_ptr() if isinstance(a, dict) else a for a in args]
            kernel.launch(grid, stream_of().cuda_stream, values)
            for slot in free:
                slots[slot] = None

        return do

    def _loaded(self, name: str) -> GeneratedKernel:
        if name not in self._kernels:
            code = self.plan["codes"][name]
            self._kernels[name] = GeneratedKernel(
                code["ptx"], code["name"], code["threads"], code["shared"]
            )
        return self._kernels[name]

    def _synchronize(self, i: int, step: dict[str, Any]) -> Do:
        return self.torch.cuda.synchronize if self.on_device else lambda: None

    def _empty(
        self, dtype: str, shape: list[int], strides: list[int], offset: int, device: str
    ) -> Callable[[], Any]:
        """Makes a tensor of this geometry in a storage of its own."""
        torch, kind = self.torch, data_type(self.torch, dtype)
        where = self.device if device != "cpu" else "cpu"
        size = _extent(shape, strides, offset)
        return lambda: torch.empty(size, dtype=kind, device=where).as_strided(
            shape, strides, offset
        )

    # --- what could not be done ---------------------------------------------------------------

    def _instead(self, step: dict[str, Any], why: str) -> Do:
        """A stand-in for a call, counted."""
        name, ns = step["op"], step.get("ns", 0)
        self.not_covered.append({"name": name, "time_ns": ns, "why": why})
        made = [[*m, self.device] for m in step.get("made", [])]
        stand_in = {"made": made, "free": step.get("free", []), "host_ns": ns, "device_ns": ns}
        return self._stand_in(-1, stand_in if self.on_device else {**stand_in, "device_ns": 0})

    def _unlike(self, step: dict[str, Any]) -> str:
        """How the results of a call differ from what was recorded; "" if they do not."""
        for slot, _, shape, _, _ in step.get("made", []) if step["do"] == "call" else ():
            found = self.slots[slot]
            if found is not None and list(found.shape) != shape:
                return f"gives shape {list(found.shape)} and not {shape}"
        return ""

    def _replace(self, i: int, step: dict[str, Any], why: str) -> None:
        instead = self._instead(step, why)
        self._ask_for(step)
        self._set(i, instead)
        self.steps[i]()
        for slot in (m[0] for m in step.get("made", [])):
            if self.slots[slot] is not None:
                self.guard.ranges.put(self.slots[slot], None)

    # --- graphs -------------------------------------------------------------------------------

    def capture(self) -> None:
        """Put consecutive steps of one graph into a graph of the device's, launched by the first."""
        if not self.on_device:
            return
        steps = self.plan["steps"]
        for inside in stretches(steps):
            graph = captured(self.torch, self.device, steps, inside, self._unplaced)
            self._graphs.append(graph)
            launch = self._on_stream(
                graph.replay,
                self._streams[steps[inside[0]].get("stream", 0)],
                [self._events[c] for c in awaited_before(steps, inside)],
                [],
                [self._events[c] for c in awaited_after(steps, inside)],
            )
            self.steps[inside.start : inside.stop] = [launch, *[_nothing] * (len(inside) - 1)]

    # --- streams ------------------------------------------------------------------------------

    def _make_streams(self) -> tuple[list[Any], dict[int, Any]]:
        """Streams beside the main one, and an event for every step that others wait for."""
        if not self.on_device:
            return [None], {}
        most = max((s.get("stream", 0) for s in self.plan["steps"]), default=0)
        streams = [None, *(self.torch.cuda.Stream(self.device) for _ in range(most))]
        return streams, {c: self.torch.cuda.Event() for c in self._awaited}

    def _placed(self, i: int, do: Do) -> Do:
        """Steps of other streams run there, after what they wait for."""
        step = self.plan["steps"][i]
        if not self.on_device:
            return do
        stream = self._streams[step.get("stream", 0)]
        if stream is None and i not in self._awaited and not step.get("after"):
            return do
        causes = [self._events[c] for c in step.get("after", [])]
        done = [self._events[i]] if i in self._events else []
        return self._on_stream(do, stream, causes, step.get("borrowed", []), done)

    def _on_stream(
        self, do: Do, stream: Any, causes: list[Any], lent: list[int], done: list[Any]
    ) -> Do:
        cuda, slots = self.torch.cuda, self.slots

        def placed() -> None:
            with cuda.stream(stream):
                here = cuda.current_stream()
                for event in causes:
                    here.wait_event(event)
                for slot in lent:
                    if slots[slot] is not None:
                        slots[slot].record_stream(here)
                do()
                for event in done:
                    event.record()

        return placed


_MAKERS: dict[str, Callable[[PlanProgram, int, dict[str, Any]], Do]] = {
    "call": PlanProgram._call,
    "view": PlanProgram._view,
    "collective": PlanProgram._collective,
    "wait": PlanProgram._wait,
    "stand_in": PlanProgram._stand_in,
    "kernel": PlanProgram._kernel,
    "synchronize": PlanProgram._synchronize,
}


_ALIAS = "aten::_reshape_alias"


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [x for item in value for x in _flat(item)]
    return [value]


def _nothing() -> None:
    """A step whose work another step does."""


def _kept_shapes(step: dict[str, Any]) -> list[list[int] | None]:
    """Recorded shapes of a call's results in order; None for those that are not kept."""
    shapes = {m[0]: m[2] for m in step.get("made", [])}
    return [shapes.get(slot) for slot in _flat(step.get("outs", []))]


def _layout(tensor: Any) -> tuple[Any, ...]:
    """What an operator must leave as it is."""
    storage = tensor.untyped_storage()
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), storage.nbytes()


def _extent(shape: list[int], strides: list[int], offset: int) -> int:
    """Elements from the begin of a storage to the last of a view of it."""
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return offset + last + 1 if all(shape) else 0


def _fatal(torch: Any, error: Exception) -> bool:
    """Errors after which the device or the process group is of no more use."""
    text = str(error)
    kinds = [torch.OutOfMemoryError] if hasattr(torch, "OutOfMemoryError") else []
    return isinstance(error, tuple(kinds)) or "CUDA error" in text or "not enough memory" in text


# --- graphs ----------------------------------------------------------------------------------------


def stretches(steps: list[dict[str, Any]]) -> list[range]:
    """Every run of consecutive steps of one graph."""
    out: list[range] = []
    numbers = [step.get("graph", 0) for step in steps]
    for i, number in enumerate(numbers):
        if number and (not i or numbers[i - 1] != number):
            out.append(range(i, i + 1))
        elif number:
            out[-1] = range(out[-1].start, i + 1)
    return out


def awaited_before(steps: list[dict[str, Any]], inside: range) -> list[int]:
    """Steps before a graph that its own wait for, so that its launch has to."""
    causes = {c for i in inside for c in steps[i].get("after", [])}
    return sorted(causes - set(inside))


def awaited_after(steps: list[dict[str, Any]], inside: range) -> list[int]:
    """Steps of a graph that others wait for: they are done when the whole graph is."""
    others = (s for i, s in enumerate(steps) if i not in inside)
    return sorted({c for s in others for c in s.get("after", [])} & set(inside))


def captured(
    torch: Any, device: str, steps: list[dict[str, Any]], inside: range, do: Mapping[int, Do]
) -> Any:
    """A graph of these steps; streams beside the first step's fork from it and join it at the end.

    Events recorded in a capture are known to that capture alone, so that these are its own.
    """
    cuda = torch.cuda
    first = steps[inside[0]].get("stream", 0)
    beside = {steps[i].get("stream", 0) for i in inside} - {first}
    streams = {number: cuda.Stream(device) for number in sorted(beside)}
    done = {c: cuda.Event() for i in inside for c in steps[i].get("after", []) if c in inside}
    graph = cuda.CUDAGraph()
    cuda.synchronize()
    with cuda.graph(graph):
        here = cuda.current_stream()
        for stream in streams.values():
            stream.wait_stream(here)
        for i in inside:
            with cuda.stream(streams.get(steps[i].get("stream", 0))):
                for cause in steps[i].get("after", []):
                    if cause in done:
                        cuda.current_stream().wait_event(done[cause])
                do[i]()
                if i in done:
                    done[i].record()
        for stream in streams.values():
            here.wait_stream(stream)
    return graph
