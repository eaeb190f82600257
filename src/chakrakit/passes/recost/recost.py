"""Recost: the same work on another device, in another precision, or with classes of it faster or slower."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.machines.device import PS_PER_NS, Device, Roofline, WorkModel
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import load_machine
from chakrakit.operators import dtype_name
from chakrakit.passes.base import Pass, map_bodies
from chakrakit.passes.nodes import classes_of, of_classes, texts_of, with_own_ns, with_run_times
from chakrakit.passes.recost.changes import by_class
from chakrakit.passes.recost.device_ratios import device_ratios
from chakrakit.passes.recost.edit import Edit
from chakrakit.passes.recost.precision import FLOATS, in_precision, with_dtypes, without_guesses
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Recost(Pass):
    """Give work the time it takes on another device, in another precision, or scaled by class.

    `machine` is a preset, a file or a Machine; `compute` is `roofline`, a profile's name or its file. With
    `measured_on`, the machine the times in the trace are from, each node takes its measured time
    times what one device's roofline gives over the other's: how well kernels use a device stays.
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
        """The traces with their new times."""
        traces = with_run_times(traces)
        self._check_classes(traces)
        if self.machine or self.dtypes:
            traces = map_bodies(traces, _Model(self).recosted)
        for name, factor in self.scale.items():
            for side in _sides(traces, name) if factor != 1 else ():
                traces = Edit(scale=factor, classes=(name,), on=side).apply(traces)
        return traces

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The time of each class, and bytes of communication, before and after."""
        sizes = {"before": _comm_bytes(before), "after": _comm_bytes(after)}
        return {"classes": by_class(before, after), "communication_bytes": sizes}

    def _check_classes(self, traces: TraceSet) -> None:
        """A class that no node has, or of which none says its element type, is a mistake."""
        for name in {**self.dtypes, **self.scale}:
            if not _sides(traces, name):
                known = sorted({str(c) for body in _bodies(traces) for c in classes_of(body)})
                raise TraceError(
                    f"recost: no node is of class {name!r}; there are {', '.join(known)}"
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
    """Where nodes of a class run."""
    there = [on_host(body)[of_classes(body, (name,))] for body in _bodies(traces)]
    found: list[Literal["device", "host"]] = []
    found += ["device"] if any((~host).any() for host in there) else []
    return found + (["host"] if any(host.any() for host in there) else [])


def _refuse_times(traces: TraceSet, classes: list[str]) -> None:
    """Work in another precision takes another time, which only a device can tell."""
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
        own = self._times(trace, typed, changed) if self.target else trace.own_ns
        return with_own_ns(without_guesses(changed, typed, trace), own)

    def _times(self, trace: Trace, typed: Trace, changed: Trace) -> I64:
        assert self.target is not None
        if self.source is not None:
            ratio = device_ratios(typed, texts_of(changed, "dtype"), self.source, self.target)
            return np.rint(trace.own_ns * ratio).astype(np.int64)
        return np.rint(self.work.costs(changed, self.target).ps / PS_PER_NS).astype(np.int64)


def _device(machine: str | Machine) -> Device:
    made = load_machine(machine) if isinstance(machine, str) else machine
    names = sorted({device.name for device in made.devices})
    if len(names) > 1:
        raise ConfigError(
            f"machine={made.name} has several kinds of device ({', '.join(names)}); give one "
            "with one"
        )
    return made.devices[0]


def _work_model(name: str) -> WorkModel:
    if name == "roofline":
        return Roofline()
    from chakrakit.machines.device import Profiled, find_profile

    return Profiled(find_profile(name))


def _comm_bytes(traces: TraceSet) -> int:
    """Bytes of all messages and collectives of all ranks, as each rank gives them in."""
    ranks = Counter(binding.body for binding in traces.bindings.values())
    sizes = {body: traces.body_at(body).column("comm_size", 0) for body in ranks}
    return sum(int(sizes[body].sum()) * count for body, count in ranks.items())
