"""Recost: the same work on another device, in another precision, or with classes of it faster or slower."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64, I64, Mask, Texts
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.machines import load_machine
from chakrakit.machines.device import (
    Device,
    Launchers,
    Profiled,
    Roofline,
    WorkModel,
    operations_of,
    packaged_profile,
    roofline_seconds,
)
from chakrakit.machines.fabric import Machine
from chakrakit.operators import (
    TYPES,
    Call,
    Operand,
    dtype_name,
    element_bytes,
    operation_of,
    recorded_types,
)
from chakrakit.passes.base import (
    Pass,
    classes_of,
    is_compute,
    map_bodies,
    names_of,
    of_classes,
    same_name,
    texts_of,
    with_own_ns,
    with_run_times,
)
from chakrakit.passes.edit import Edit, by_class
from chakrakit.trace.model import COMMUNICATION, NodeType, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import PS_PER_NS, RECORDED_DEVICE, TraceSet

# --- times on one device over those on another, by their rooflines ------------------------------


def device_ratios(trace: Trace, new: Texts, source: Device, target: Device) -> F64:
    """Returns each row's time on `target` in the element types `new` over that on `source` as recorded.

    All kernels of an operator share its work. A kernel whose work is unknown takes the ratio of
    one with its name; all other rows, and the host's, keep their time.
    """
    flops, moved = _work(trace)
    device = ~on_host(trace) & trace.is_type(
        NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE
    )
    has_work = device & ((flops > 0) | (moved > 0))
    old = texts_of(trace, "dtype")
    ratio = np.ones(len(trace))
    before = roofline_seconds(flops, moved, _or_bf16(old), source)
    after = roofline_seconds(flops, moved * _growth(old, new), _or_bf16(new), target)
    ratio[has_work] = after[has_work] / np.maximum(before[has_work], 1e-15)
    ratio[device] = same_name(names_of(trace)[device], ratio[device], has_work[device])
    return ratio


def profile_ratios(trace: Trace, new: Texts, profile: Profiled) -> F64:
    """Each row's time in the element types `new` over that as recorded, by measured times of both.

    That is for products, convolutions and attention on 32 bits that go to 16; NaN for all other rows. How
    much of its peak a product reaches differs between the units of one device.
    """
    ratio = np.full(len(trace), np.nan)
    old, launchers = texts_of(trace, "dtype"), Launchers(trace)
    for work in operations_of(trace):
        rows = list(work.rows)
        operator = launchers.operator(rows[0])
        halved = element_bytes(old[rows[0]]) == 4 and element_bytes(new[rows[0]]) == 2
        if operator is None or not halved or not work.operation.flops:
            continue
        after = operation_of(_halved(launchers.call(operator), str(new[rows[0]])))
        times = [profile.predict(o) if o else None for o in (work.operation, after)]
        if times[0] and times[1]:
            ratio[rows] = times[1].us / times[0].us
    return ratio


def _halved(call: Call, dtype: str) -> Call:
    """A call whose tensors of 32 bits have 16, and whose kernels are not known."""

    def one(tensor: Operand) -> Operand:
        return tensor._replace(each=2, dtype=dtype) if tensor.each == 4 else tensor

    inputs = [[one(t) for t in a] if isinstance(a, list) else a and one(a) for a in call.inputs]
    outputs = [one(t) for t in call.outputs]
    return call._replace(inputs=inputs, outputs=outputs, kernels=())


def _work(trace: Trace) -> tuple[F64, F64]:
    """FLOPs and bytes of each row; for the kernels of an operator those of the whole operation.

    What a node counts may be less than what the class of its operation says: of attention, for one,
    the linker counts the bytes it touches and not the products inside.
    """
    flops = trace.column("num_ops", 0).astype(np.float64)
    moved = trace.column("tensor_size", 0).astype(np.float64)
    for rows, operation, *_ in operations_of(trace):
        at = list(rows)
        flops[at] = max(flops[at].sum(), operation.flops)
        moved[at] = max(moved[at].sum(), operation.bytes if operation.bytes > 1 else 0.0)
    return flops, moved


def _growth(old: Texts, new: Texts) -> F64:
    """Returns the bytes of a new element over those of the old one, for each row."""
    pairs = zip(old.tolist(), new.tolist(), strict=True)
    return np.array(
        [
            (element_bytes(b) / element_bytes(a) if a != b and element_bytes(a) else 1.0)
            for a, b in pairs
        ]
    )


def _or_bf16(dtypes: Texts) -> Texts:
    return np.where(dtypes == "", "bf16", dtypes).astype(object)


# --- other element types: bytes change, operations do not ---------------------------------------


FLOATS = tuple(t.name for t in TYPES if t.kind == "float")
"""Element types that can replace each other; integers are never converted."""
_SIZES = ("comm_size", "out_size")


def with_dtypes(trace: Trace) -> Trace:
    """Returns the trace with an element type for every device compute node whose inputs tell it."""
    dtypes = texts_of(trace, "dtype")
    rows = np.flatnonzero((dtypes == "") & is_compute(classes_of(trace)))
    launchers = Launchers(trace)
    types = texts_of(trace, "inputs_types")
    for row in rows.tolist():
        operator = launchers.operator(row)
        names = recorded_types(types[row if operator is None else operator])
        dtypes[row] = dtype_name(names[0]) if names else ""
    return trace.with_columns({"dtype": _dtype_column(dtypes)}) if (dtypes != "").any() else trace


def without_guesses(changed: Trace, typed: Trace, trace: Trace) -> Trace:
    """Returns `changed` without the element types that `with_dtypes` derived and nothing changed since."""
    new, typed_dtypes, recorded = (texts_of(body, "dtype") for body in (changed, typed, trace))
    dtypes = np.where(new == typed_dtypes, recorded, new)
    return (
        changed if (dtypes == new).all() else changed.with_columns({"dtype": _dtype_column(dtypes)})
    )


def in_precision(trace: Trace, dtypes: Mapping[str, str]) -> Trace:
    """Returns the trace with classes of work in other element types (class → type).

    `communication` is a class too.
    """
    for name, dtype in dtypes.items():
        trace = _converted(trace, of_classes(trace, (name,)), dtype)
    return trace


def _converted(trace: Trace, rows: Mask, dtype: str) -> Trace:
    """Converts the rows that have a floating-point element type to another, with their sizes."""
    comm = trace.is_type(*COMMUNICATION)
    for side, column, sizes in (
        (rows & comm, "comm_dtype", _SIZES),
        (rows & ~comm, "dtype", ("tensor_size",)),
    ):
        dtypes = texts_of(trace, column)
        old = np.array([element_bytes(n) if dtype_name(n) in FLOATS else 0.0 for n in dtypes])
        convertible = side & (old > 0)
        if not convertible.any():
            continue
        dtypes[convertible] = dtype
        columns: dict[str, object] = {column: _dtype_column(dtypes)}
        for size in (s for s in sizes if s in trace.table.column_names):
            values = trace.column(size, 0).astype(np.int64)
            grown = values[convertible] / old[convertible] * element_bytes(dtype)
            values[convertible] = np.ceil(grown).astype(np.int64)
            columns[size] = pa.array(values, mask=~trace.has(size))
        ratio = np.ones(len(trace))
        ratio[convertible] = element_bytes(dtype) / old[convertible]
        trace = trace.with_columns(columns | _memory_columns(trace, ratio))
    return trace


def _memory_columns(trace: Trace, ratio: F64) -> dict[str, object]:
    """Returns the bytes that nodes allocate and free, which follow their element types.

    What is freed was allocated by another node, which the trace does not name; where all nodes that allocated
    as many bytes changed alike, it was one of them.
    """
    if "mem_alloc" not in trace.table.column_names:
        return {}
    alloc, free = (trace.column(c, 0).astype(np.int64) for c in ("mem_alloc", "mem_free"))
    released = ratio.copy()
    for size in np.unique(free[free > 0]).tolist():
        ratios = np.unique(ratio[alloc == size])
        if len(ratios) == 1:
            released[free == size] = ratios[0]
    changed = {"mem_alloc": (alloc, ratio), "mem_free": (free, released)}
    return {
        name: pa.array(np.ceil(values * by).astype(np.int64), mask=~trace.has(name))
        for name, (values, by) in changed.items()
        if name in trace.table.column_names
    }


def _dtype_column(texts: Texts) -> pa.Array | None:
    return (
        None
        if not (texts != "").any()
        else pa.array([text or None for text in texts.tolist()], pa.string())
    )


@dataclass(frozen=True)
class Recost(Pass):
    """Give work the time it takes on another device, in another precision, or scaled by class.

    `machine` is a preset, a file or a Machine; `compute` is `roofline`, a profile's name or its file. With
    `measured_on`, the machine the times in the trace are from, each node takes its measured time
    times what one device's roofline gives over the other's: how well kernels use a device stays. In 16 bits
    instead of 32 on one device, products take what its profile measured of both.
    `dtypes` puts classes into another element type (`{gemm: fp8, communication: bf16}`), and `scale`
    multiplies classes (`{gemm: 0.5, host: 2}`), last of all.
    """

    name = "recost"
    preserves = (
        "nodes, edges, groups, operations; sizes but for classes in `dtypes`; host times but for the "
        "class `host` in `scale`; times of work that no model knows"
    )
    machine: str | Machine = ""
    compute: str = "roofline"
    measured_on: str | Machine = ""
    dtypes: dict[str, str] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.machine or self.dtypes or self.scale):
            raise ConfigError("recost changes nothing; give machine, dtypes or scale")
        if self.compute != "roofline" and (self.measured_on or self.dtypes):
            raise ConfigError(
                "a profile gives times of its own device and precision; leave measured_on "
                "and dtypes out, or take compute=roofline"
            )
        if self.measured_on and not self.machine:
            raise ConfigError(
                "measured_on says where times are from; give machine, where they go, too"
            )
        for name, dtype in self.dtypes.items():
            if dtype_name(dtype) not in FLOATS:
                raise ConfigError(f"dtypes: {name}: no type {dtype!r}; {nearest(dtype, FLOATS)}")
        for name, factor in self.scale.items():
            if not 0 <= factor < math.inf:
                raise ConfigError(f"scale: {name}: {factor}; it should be 0 or more, and finite")

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with their new times."""
        traces = with_run_times(traces)
        self._check_classes(traces)
        if self.machine or self.dtypes:
            model = _Model(self)
            traces = map_bodies(traces, model.recosted)
            if model.target is not None:
                traces = _timed_on(traces, model.target)
        for name, factor in self.scale.items():
            for side in _sides(traces, name) if factor != 1 else ():
                traces = Edit(scale=factor, classes=(name,), on=side).apply(traces)
        return traces

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The time of each class, and bytes of communication, before and after."""
        sizes = {"before": _comm_bytes(before), "after": _comm_bytes(after)}
        return {"classes": by_class(before, after), "communication_bytes": sizes}

    def _check_classes(self, traces: TraceSet) -> None:
        """Refuses a class that no node has, or whose nodes do not say their element type."""
        for name in {**self.dtypes, **self.scale}:
            if not _sides(traces, name):
                present = sorted({str(c) for body in _bodies(traces) for c in classes_of(body)})
                raise TraceError(
                    f"recost: no node is of class {name!r}; there are {', '.join(present)}"
                )
        for name, dtype in self.dtypes.items():
            typed = map(with_dtypes, _bodies(traces))
            if all(in_precision(body, {name: dtype}) is body for body in typed):
                raise TraceError(
                    f"recost: no node of class {name!r} says its element type; what its bytes "
                    "would be in another is not known"
                )
        work = [name for name in self.dtypes if name != "communication"]
        if work and not self.machine:
            _refuse_times(traces, work)


def _bodies(traces: TraceSet) -> Iterator[Trace]:
    """One after another, so that they need not all be in memory."""
    return (traces.body_at(number) for number in range(traces.body_count))


def _sides(traces: TraceSet, name: str) -> list[Literal["device", "host"]]:
    """Returns the sides, device and host, on which nodes of a class run."""
    host_masks = [on_host(body)[of_classes(body, (name,))] for body in _bodies(traces)]
    sides: list[Literal["device", "host"]] = []
    sides += ["device"] if any((~host).any() for host in host_masks) else []
    return sides + (["host"] if any(host.any() for host in host_masks) else [])


def _refuse_times(traces: TraceSet, classes: list[str]) -> None:
    """Refuses to convert traces with times unless a machine is given, because times change with precision."""
    if any(body.own_ns[of_classes(body, classes)].any() for body in _bodies(traces)):
        raise ConfigError(
            "dtypes: these traces have times, which change with precision as a device tells; "
            "give machine (and measured_on)"
        )


class _Model:
    """What a Recost does to one body."""

    def __init__(self, recost: Recost) -> None:
        self.dtypes = recost.dtypes
        self.target = _device(recost.machine) if recost.machine else None
        self.source = _device(recost.measured_on) if recost.measured_on else None
        self.work = _work_model(recost.compute)

    def recosted(self, trace: Trace) -> Trace:
        """The body with other sizes and times."""
        typed = with_dtypes(trace)
        changed = in_precision(typed, self.dtypes)
        own_ns = self._times(trace, typed, changed) if self.target else trace.own_ns
        return with_own_ns(without_guesses(changed, typed, trace), own_ns)

    def _times(self, trace: Trace, typed: Trace, changed: Trace) -> I64:
        assert self.target is not None
        if self.source is not None:
            dtypes = texts_of(changed, "dtype")
            ratio = device_ratios(typed, dtypes, self.source, self.target)
            if self.dtypes and self.source.profile and self.source == self.target:
                measured = profile_ratios(typed, dtypes, packaged_profile(self.source.profile))
                ratio = np.where(np.isnan(measured), ratio, measured)
            return np.rint(trace.own_ns * ratio).astype(np.int64)
        return np.rint(self.work.costs(changed, self.target).ps / PS_PER_NS).astype(np.int64)


def _timed_on(traces: TraceSet, device: Device) -> TraceSet:
    """The traces with the device that their times are of now: `simulate` carries them from there."""
    if RECORDED_DEVICE not in traces.card.settings:
        return traces
    settings = {**traces.card.settings, RECORDED_DEVICE: device.name}
    return traces.with_card(msgspec.structs.replace(traces.card, settings=settings))


def _device(machine: str | Machine) -> Device:
    loaded = load_machine(machine) if isinstance(machine, str) else machine
    names = sorted({device.name for device in loaded.devices})
    if len(names) > 1:
        raise ConfigError(
            f"machine={loaded.name} has several kinds of device ({', '.join(names)}); give one "
            "with one"
        )
    return loaded.devices[0]


def _work_model(name: str) -> WorkModel:
    if name == "roofline":
        return Roofline()
    from chakrakit.machines.device import find_profile

    return Profiled(find_profile(name))


def _comm_bytes(traces: TraceSet) -> int:
    """Sums `comm_size` over all messages and collectives of all ranks."""
    ranks = Counter(binding.body for binding in traces.bindings.values())
    sizes = {body: traces.body_at(body).column("comm_size", 0) for body in ranks}
    return sum(int(sizes[body].sum()) * count for body, count in ranks.items())
