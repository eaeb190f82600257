"""From a trace that never ran to a plan: operators made from the shapes, types and sizes of its nodes.

A product, attention or optimizer becomes the operator that PyTorch has for it; work on elements becomes an
element-wise operator that moves as many bytes. So a plan can be tried on real hardware before anybody
writes the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import TraceError
from chakrakit.operators import find_type
from chakrakit.replayer.compile.builder import Builder
from chakrakit.replayer.compile.exchanged import Exchanged
from chakrakit.replayer.compile.from_shapes import Written, made_call
from chakrakit.replayer.compile.memory import StoragePool
from chakrakit.replayer.plan import AnyStep, Call, Collective, StandIn, Wait
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.runner import ANY_OVERLOAD, is_listed
from chakrakit.replayer.tensors import ITEM_BYTES, Unsupported, tensor_type
from chakrakit.replayer.units import Do, ReplayUnit

# A recorded launch of a CUDA graph as the operators that were captured in it.


@dataclass(frozen=True)
class _Captured:
    """One call of a capture, and its rows on the device."""

    call: Written
    rows: list[int]


class GraphMaker:
    """Makes the steps of graph launches; the graphs of a plan are numbered from 1."""

    def __init__(self, seen: RecordedRows, build: Builder) -> None:
        self.seen, self.build = seen, build
        self.pool = StoragePool(seen.main_device)
        self._number = 0

    def is_graph(self, unit: ReplayUnit) -> bool:
        """Whether a unit launched kernels of which a capture says what they work for."""
        operators = self.seen.texts("operator")
        return not self.seen.schemas[unit.row] and any(operators[k] for k in unit.kernels)

    def steps(self, unit: ReplayUnit) -> Iterator[tuple[Call | StandIn, int]]:
        """The steps of a launch, each with the recorded time of its kernels."""
        self._number += 1
        for captured in self._calls(unit):
            ns = sum(int(self.seen.trace.duration_ns[k]) for k in captured.rows)
            self.pool.begin()
            step: Call | StandIn
            try:
                step = self._call(captured, unit)
                step.ns = ns
            except Unsupported as why:
                named = captured.call.name or self.seen.names[captured.rows[0]]
                step = StandIn(name=f"{named} ({why})", device_ns=ns)
            step.graph = self._number
            yield step, ns

    def _call(self, captured: _Captured, unit: ReplayUnit) -> Call:
        name = captured.call.name
        if not is_listed(name, ANY_OVERLOAD):
            raise Unsupported("not an operator that a replay calls")
        return made_call(
            captured.call,
            lambda dtype, shape, strides: self.build.use(
                self.pool.tensor(dtype, shape, strides), unit
            ),
        )

    def _calls(self, unit: ReplayUnit) -> list[_Captured]:
        """Kernels together that one call launched, in the order of the capture."""
        told = {k: self._told(k) for k in unit.kernels}
        found: dict[Any, _Captured] = {}
        for row in sorted(unit.kernels, key=lambda k: (told[k][0], k)):
            number, strides, values = told[row]
            key = number if number >= 0 else ("row", row)
            if key not in found:
                shapes, types = (self._list(f"inputs_{what}", row) for what in ("shapes", "types"))
                name = self.seen.texts("operator")[row]
                found[key] = _Captured(Written(name, shapes, types, strides, values), [])
            found[key].rows.append(row)
        return list(found.values())

    def _told(self, row: int) -> tuple[int, list[Any], list[Any]]:
        text = self.seen.texts("operator_call")[row]
        try:
            return msgspec.json.decode(text, type=tuple[int, list[Any], list[Any]])
        except msgspec.MsgspecError:
            return -1, [], []

    def _list(self, column: str, row: int) -> list[Any]:
        text = self.seen.texts(column)[row]
        try:
            return msgspec.json.decode(text, type=list[Any]) if text else []
        except msgspec.MsgspecError:
            return []


_ADAM_BYTES = 28
"""Per parameter in single precision: weight and two moments read and written, gradient read."""


def is_generated(seen: RecordedRows) -> bool:
    """Whether a trace says what its nodes do by kinds and shapes, not by recorded calls."""
    return not any(seen.schemas) and any(seen.texts("op_type"))


class GeneratedSteps:
    """Makes steps of the nodes of one rank, none before what it depends on."""

    def __init__(
        self, seen: RecordedRows, build: Builder, exchange: Callable[[int], Exchanged]
    ) -> None:
        self.seen, self.build, self.exchange = seen, build, exchange
        self.pool = StoragePool(seen.main_device)
        self.count, self.time_ns = [0, 0], [0, 0]
        self.on_device = build.options.device == "cuda"
        self._pending: dict[int, int] = {}
        """Rows whose communication nobody has waited for → its work."""
        edges = seen.trace.edges
        self._causes: dict[int, list[int]] = {}
        for src, dst in zip(edges.src.tolist(), edges.dst.tolist(), strict=True):
            self._causes.setdefault(dst, []).append(src)

    def run(self) -> None:
        """All rows."""
        level = self.seen.trace.graph.levels() if self.seen.level is None else self.seen.level
        comm = self.seen.is_comm
        order = np.lexsort((np.arange(len(self.seen)), level)).tolist()
        last = order[-1]
        for row in order:
            unit = ReplayUnit(row, Do.CALL, None)
            self.pool.begin()
            for cause in self._causes.get(row, []):
                self._wait(cause, unit)
            steps = self._communication(unit) if comm[row] else self._compute(unit)
            for step in steps:
                self.build.emit(step, unit)
            for cause in list(self._pending) if row == last else ():
                self._wait(cause, unit)
            self.build.next_unit(unit)
        self.build.end()
        if not self.count[0]:
            raise TraceError(
                f"rank {self.seen.rank}: no node says what it does by shapes that replay knows; "
                "use --mode emulate"
            )

    def _wait(self, row: int, unit: ReplayUnit) -> None:
        work = self._pending.pop(row, -1)
        if work >= 0:
            self.build.emit(Wait(work=work), unit)

    # --- compute ------------------------------------------------------------------------------

    def _compute(self, unit: ReplayUnit) -> list[AnyStep]:
        kind = self.seen.texts("op_type")[unit.row]
        if not kind:
            return []
        ns = int(self.seen.trace.duration_ns[unit.row])
        try:
            steps = self._made(unit, kind)
            why = ""
        except Unsupported as error:
            steps, why = [], str(error)
        self.count = [self.count[0] + bool(steps), self.count[1] + 1]
        self.time_ns = [self.time_ns[0] + ns * bool(steps), self.time_ns[1] + ns]
        for step in steps:
            step.ns = ns // len(steps)
        name = self.seen.names[unit.row]
        return [*steps] if steps else [StandIn(name=f"{name} ({why})", host_ns=ns)]

    def _made(self, unit: ReplayUnit, kind: str) -> list[Call]:
        name = self.seen.names[unit.row]
        if name.startswith("aten::"):
            return self._captured(unit, name)
        shapes = self._shapes(unit.row)
        dtype = _computed_in(self.seen.texts("dtype")[unit.row])
        if kind == "matmul" and shapes:
            return [self._product(unit, name, shapes, dtype)]
        if kind == "attention" and len(shapes) >= 3:
            return self._attention(unit, name, shapes, dtype)
        if kind == "optimizer":
            return [self._optimizer(unit)]
        return [self._elements(unit, name, dtype)]

    def _captured(self, unit: ReplayUnit, name: str) -> list[Call]:
        """A captured program names the operator and all its arguments."""
        if not is_listed(name, ANY_OVERLOAD):
            raise Unsupported("not an operator that a replay calls")
        given, gives = (self.seen.arguments(unit.row, side) for side in ("inputs", "outputs"))
        result = next((tensor_type(t) for t in gives.types if isinstance(t, str)), None)
        written = Written(name, given.shapes, given.types, given.strides, given.values, result)
        return [made_call(written, self._maker(unit))]

    def _maker(self, unit: ReplayUnit) -> Callable[[str, Sequence[int], Sequence[int]], int]:
        return lambda dtype, shape, strides: self._slot(unit, dtype, shape, strides)

    def _slot(
        self, unit: ReplayUnit, dtype: str, shape: Sequence[int], strides: Sequence[int] = ()
    ) -> int:
        return self.build.use(self.pool.tensor(dtype, shape, strides), unit)

    def _shapes(self, row: int) -> list[list[int]]:
        text = self.seen.texts("inputs_shapes")[row]
        try:
            return msgspec.json.decode(text, type=list[list[int]]) if text else []
        except msgspec.MsgspecError:
            raise Unsupported("shapes that are not lists of numbers") from None

    def _product(self, unit: ReplayUnit, name: str, shapes: list[list[int]], dtype: str) -> Call:
        """Weights lie as PyTorch keeps them: transposed in the forward pass, inputs so for weights."""
        left, right = shapes[:2]
        if not 2 <= len(left) == len(right) <= 3 or left[-1] != right[-2]:
            raise Unsupported(f"a product of {left} and {right}")
        turned = len(left) == 2 and not name.endswith((".dx", ".dw"))
        a = _turned(left) if len(left) == 2 and name.endswith(".dw") else ()
        b = _turned(right) if turned else ()
        args = [self._slot(unit, dtype, left, a), self._slot(unit, dtype, right, b)]
        op = "aten::mm" if len(left) == 2 else "aten::bmm"
        return Call(op=op, overload="", args=[{"slot": s} for s in args])

    def _attention(
        self, unit: ReplayUnit, name: str, shapes: list[list[int]], dtype: str
    ) -> list[Call]:
        query, key, value = shapes[:3]
        if not len(query) == len(key) == len(value) == 4:
            raise Unsupported("attention without batch, heads, length and width")
        for part, width in ((".scores", query[3]), (".values", value[3])):
            if part in name:
                return self._half_attention(unit, name, query, key[2], width, dtype)
        full = 4 * math.prod(query) * key[2]
        backward = name.endswith((".dx", ".dw"))
        causal = self.seen.number("num_ops", unit.row, 0) < 0.75 * full * (2.5 if backward else 1)
        if not backward:
            slots = [{"slot": self._slot(unit, dtype, s)} for s in (query, key, value)]
            args = [*slots, None, 0.0, causal]
            named = {"enable_gqa": query[1] != key[1]}
            return [Call(op=_ATTENTION, overload="", args=args, kwargs=named)]
        return [self._attention_backward(unit, query, key, value, dtype, causal)]

    def _half_attention(
        self, unit: ReplayUnit, name: str, query: list[int], keys: int, width: int, dtype: str
    ) -> list[Call]:
        """One of the two products of attention that is not fused; two of them backwards."""
        heads, length = query[0] * query[1], query[2]
        scores = ".scores" in name
        forward = [[length, width], [width, keys]] if scores else [[length, keys], [keys, width]]
        (m, k), (_, n) = forward
        products = [[[m, n], [n, k]], [[k, m], [m, n]]] if name.endswith(".dx") else [forward]
        calls = []
        for shapes in products:
            slots = [{"slot": self._slot(unit, dtype, [heads, *s])} for s in shapes]
            calls.append(Call(op="aten::bmm", overload="", args=slots))
        return calls

    def _attention_backward(
        self,
        unit: ReplayUnit,
        query: list[int],
        key: list[int],
        value: list[int],
        dtype: str,
        causal: bool,
    ) -> Call:
        """What flash attention saved is made up; its time does not depend on it."""
        out = [*query[:3], value[3]]
        if not self.on_device:  # the host's kernel wants as many heads of keys as of queries
            key, value = [[s[0], query[1], *s[2:]] for s in (key, value)]
        tensors = [self._slot(unit, dtype, s) for s in (out, query, key, value, out)]
        saved = self._slot(unit, "float32", query[:3])
        args: list[Any] = [{"slot": s} for s in (*tensors, saved)]
        if not self.on_device:
            op = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
            return Call(op=op, overload="", args=[*args, 0.0, causal])
        seeds: list[Any] = [{"slot": self._slot(unit, "int64", [])} for _ in range(2)]
        args += [None, None, query[2], key[2], 0.0, causal, *seeds]
        return Call(op=_FLASH_BACKWARD, overload="", args=args)

    def _optimizer(self, unit: ReplayUnit) -> Call:
        count = max(self.seen.number("tensor_size", unit.row, 0) // _ADAM_BYTES, 1)
        lists: list[Any] = [[{"slot": self._slot(unit, "float32", [count])}] for _ in range(4)]
        step = [{"slot": self._slot(unit, "float32", [1])}]
        named = {
            "lr": 1e-4,
            "beta1": 0.9,
            "beta2": 0.95,
            "weight_decay": 0.1,
            "eps": 1e-8,
            "amsgrad": False,
            "maximize": False,
        }
        args = [*lists, [], step]
        return Call(op="aten::_fused_adamw_", overload="", args=args, kwargs=named)

    def _elements(self, unit: ReplayUnit, name: str, dtype: str) -> Call:
        """As many bytes as the node moves: two tensors read and one written for a sum, else one each."""
        width = ITEM_BYTES[dtype]
        passes = 3 if name.endswith(".add") else 2
        count = self.seen.number("tensor_size", unit.row, 0) // (passes * width)
        if count < 1:
            raise Unsupported("work on nothing")
        slots = [{"slot": self._slot(unit, dtype, [count])} for _ in range(passes - 1)]
        if passes == 3:
            return Call(op="aten::add", overload="Tensor", args=slots)
        return Call(op="aten::silu", overload="", args=slots)

    # --- communication ------------------------------------------------------------------------

    def _communication(self, unit: ReplayUnit) -> list[AnyStep]:
        if self.build.options.mode == "compute":
            return []
        found = self.exchange(unit.row)
        ns = int(self.seen.trace.duration_ns[unit.row])
        there = found.group >= 0
        self.count = [self.count[0] + there, self.count[1] + 1]
        self.time_ns = [self.time_ns[0] + ns * there, self.time_ns[1] + ns]
        if not there:
            return [StandIn(name=self.seen.names[unit.row], host_ns=ns)]
        sizes = [found.input, found.output, *found.in_splits, *found.out_splits]
        dtype, width = ("float32", 4) if all(n % 4 == 0 for n in sizes) else ("uint8", 1)
        sides = [
            [self._slot(unit, dtype, [n // width])] if n else []
            for n in (found.input, found.output)
        ]
        work = self._pending[unit.row] = self.build.works
        self.build.works += 1
        return [
            Collective(
                op=found.op,
                group=found.group,
                work=work,
                inputs=sides[0],
                outputs=sides[1] or sides[0],
                root=found.root,
                tag=found.tag,
                in_splits=[n // width for n in found.in_splits],
                out_splits=[n // width for n in found.out_splits],
                ns=ns,
            )
        ]


_ATTENTION = "aten::scaled_dot_product_attention"
_FLASH_BACKWARD = "aten::_scaled_dot_product_flash_attention_backward"


def _computed_in(dtype: str) -> str:
    """PyTorch's name of an element type; float32 for those that its products and sums do not take."""
    element = find_type(dtype)
    if element is None or element.kind != "float" or element.bits < 16:
        return "float32"
    return element.torch or "float32"


def _turned(shape: list[int]) -> tuple[int, int]:
    """Strides of a matrix whose transpose is contiguous."""
    return 1, shape[0]
