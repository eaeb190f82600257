"""Calls of a recorded program that one kernel replaces, and the device that says how long it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines import load_machine, recorded_on
from chakrakit.machines.device import Profiled, packaged_profile
from chakrakit.operators import Call, operation_of, read_call
from chakrakit.passes.base import names_of, texts_of, with_own_ns, without_gaps
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import RECORDED_DEVICE, TraceSet


@dataclass(frozen=True)
class KernelTimes:
    """What kernels take on a device, by its profile; `slower` times as long."""

    profile: Profiled
    slower: float

    def nanoseconds(self, call: Call) -> int | None:
        """The time of a call's kernel; None where the profile does not know it."""
        operation = operation_of(call)
        predicted = self.profile.predict(operation) if operation else None
        return None if predicted is None else round(predicted.us * 1e3 * self.slower)


def kernel_times(traces: TraceSet, machine: str, slower: float, name: str) -> KernelTimes:
    """The times of the named machine, else of the device that the traces were recorded on."""
    recorded = traces.card.settings.get(RECORDED_DEVICE)
    device = recorded_on(recorded).device if isinstance(recorded, str) else None
    if machine:
        device = load_machine(machine).devices[0]
    if device is None or not device.profile:
        raise TraceError(
            f"{name}: what the new kernel takes is not known; give machine=NAME, one with a profile "
            "(chakra machines)"
        )
    return KernelTimes(packaged_profile(device.profile), slower)


def check_slower(slower: float) -> None:
    """Refuses factors that are none."""
    if not 0 < slower < math.inf:
        raise ConfigError(f"slower={slower}; it should be above 0, and finite")


class Replacement(NamedTuple):
    """Rows that no longer take time, and what stands in for them."""

    rows: I64
    """Rows of the host and of the device."""
    kernel: int
    """The row of the device that takes `kernel_ns`; -1 for none."""
    kernel_ns: int
    host: int = -1
    """The row of the host that takes `host_ns`; -1 for none."""
    host_ns: int = 0


def with_replacements(trace: Trace, replacements: Iterable[Replacement]) -> Trace:
    """The trace with other times: what is replaced takes none, on the device or between rows of the host."""
    own = trace.own_ns.copy()
    gone = np.zeros(len(trace), np.bool_)
    for one in replacements:
        gone[one.rows] = True
        own[one.rows] = 0
        if one.kernel >= 0:
            own[one.kernel] = one.kernel_ns
        if one.host >= 0:
            own[one.host] = one.host_ns
    return without_gaps(with_own_ns(trace, own), gone & on_host(trace))


def recorded_calls(trace: Trace, rows: I64) -> list[Call]:
    """Rows with the arguments that were recorded of them; what is not known has no tensors."""
    columns = ("inputs_shapes", "inputs_types", "inputs_values")
    texts = [names_of(trace)[rows], *(texts_of(trace, column)[rows] for column in columns)]
    return [read_call(n, s, t, values=v) for n, s, t, v in zip(*texts, strict=True)]


def first_kernel(trace: Trace, rows: I64) -> int:
    """The row of the device that begins first; -1 where there is none."""
    device = rows[~on_host(trace)[rows]]
    return int(device[np.argmin(trace.start_ns[device])]) if len(device) else -1
