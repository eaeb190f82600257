"""A plan made ready to run: operators looked up, arguments laid out, one closure per step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bindings import Bindings
from .calls import Do, Layout, bind, constant
from .collectives import issue
from .limits import ReplayError, check_operator
from .spin import cycles_per_ns, spin_host
from .storages import data_type

GROUP_MARK = "chakra:group="
"""What the linker takes a collective's group from: gloo's own records name none."""


class Program:
    """Steps of a plan as functions without arguments, on the tensors in `slots`.

    `check` runs them once, slowly: an operator that fails here is replaced by a stand-in, and so is
    a result that has another shape than was recorded. After that `run` does an iteration.
    """

    def __init__(self, torch: Any, plan: dict[str, Any], device: str, groups: list[Any]) -> None:
        self.torch, self.plan, self.device, self.groups = torch, plan, device, groups
        self.slots: list[Any] = [None] * plan["slots"]
        self.works: dict[int, Any] = {}
        self.marking = False
        self.on_device = device.startswith("cuda")
        self._rate = cycles_per_ns(torch) if self.on_device else 0.0
        self.not_covered: list[dict[str, Any]] = []
        self._operators: dict[int, Any] = {}
        self._awaited = {c for s in plan["steps"] for c in s.get("after", [])}
        self.steps = [self._make(i, s) for i, s in enumerate(plan["steps"])]
        self._place_on_streams()

    def run(self) -> None:
        """One iteration."""
        for step in self.steps:
            step()

    def check(self) -> None:
        """One iteration that finds out what cannot be done as it was recorded."""
        bindings = Bindings(self.torch)
        for i, step in enumerate(self.plan["steps"]):
            try:
                if not self._shortened(i, step, bindings):
                    self.steps[i]()
                why = self._unlike(step)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                if step["do"] != "call" or _fatal(self.torch, error):
                    raise ReplayError(f"step {i} ({step.get('op', step['do'])}): {error}") from None
                why = str(error).partition("\n")[0] or type(error).__name__
            if why:
                self._replace(i, step, why)
                self.steps[i]()

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
        gap = step.get("gap_ns", 0)
        if not gap:
            return do

        def after_gap() -> None:
            spin_host(gap)
            do()

        return after_gap

    def _call(self, i: int, step: dict[str, Any]) -> Do:
        check_operator(step["op"], i)
        namespace, _, name = step["op"].partition("::")
        packet = getattr(getattr(self.torch.ops, namespace), name, None)
        found = getattr(packet, step["overload"] or "default", None)
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

        def plain(value: Any) -> Any:
            return constant(self.torch, value, self.device, self.groups)

        layout = Layout(step["args"], plain)
        return bind(
            operator, step, self.slots, layout, Layout(list(step.get("kwargs", {}).values()), plain)
        )

    def _view(self, i: int, step: dict[str, Any]) -> Do:
        slots, base, slot = self.slots, step["base"], step["slot"]
        shape, strides, offset = step["shape"], step["strides"], step["offset"]
        dtype, free = data_type(self.torch, step["dtype"]), step.get("free", [])

        def do() -> None:
            whole = slots[base]
            if whole.dtype != dtype:
                flat = self.torch.empty(0, dtype=dtype, device=whole.device)
                slots[slot] = flat.set_(whole.untyped_storage(), offset, shape, strides)
            else:
                slots[slot] = whole.as_strided(shape, strides, offset)
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

    def _synchronize(self, i: int, step: dict[str, Any]) -> Do:
        return self.torch.cuda.synchronize if self.on_device else lambda: None

    def _empty(
        self, dtype: str, shape: list[int], strides: list[int], offset: int, device: str
    ) -> Callable[[], Any]:
        """Makes a tensor of this geometry in a storage of its own."""
        torch, kind = self.torch, data_type(self.torch, dtype)
        where = self.device if device != "cpu" else "cpu"
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        size = offset + last + 1 if all(shape) else 0
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
        self.steps[i] = self._instead(step, why)

    # --- streams ------------------------------------------------------------------------------

    def _place_on_streams(self) -> None:
        """Steps of other streams run there, after what they wait for."""
        if not self.on_device:
            return
        plan = self.plan["steps"]
        most = max((s.get("stream", 0) for s in plan), default=0)
        streams = [None, *(self.torch.cuda.Stream(self.device) for _ in range(most))]
        awaited = self._awaited
        events = {c: self.torch.cuda.Event() for c in awaited}
        for i, step in enumerate(plan):
            stream = streams[step.get("stream", 0)]
            if stream is not None or i in awaited or step.get("after"):
                causes = [events[c] for c in step.get("after", [])]
                lent = step.get("borrowed", [])
                self.steps[i] = self._on_stream(self.steps[i], stream, causes, lent, events.get(i))

    def _on_stream(self, do: Do, stream: Any, causes: list[Any], lent: list[int], done: Any) -> Do:
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
                if done is not None:
                    done.record()

        return placed


_MAKERS: dict[str, Callable[[Program, int, dict[str, Any]], Do]] = {
    "call": Program._call,
    "view": Program._view,
    "collective": Program._collective,
    "wait": Program._wait,
    "stand_in": Program._stand_in,
    "synchronize": Program._synchronize,
}


def _fatal(torch: Any, error: Exception) -> bool:
    """Errors after which the device or the process group is of no more use."""
    text = str(error)
    kinds = [torch.OutOfMemoryError] if hasattr(torch, "OutOfMemoryError") else []
    return isinstance(error, tuple(kinds)) or "CUDA error" in text or "not enough memory" in text
