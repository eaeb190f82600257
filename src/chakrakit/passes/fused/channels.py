"""ChannelsLast: images whose channels lie next to each other, as convolutions on product units read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.errors import TraceError
from chakrakit.machines.device import Launchers, operations_of
from chakrakit.operators import Argument, Call, Operand
from chakrakit.passes.base import Pass, map_bodies, names_of, with_own_ns, with_run_times
from chakrakit.passes.fused.replaced import KernelTimes, check_slower, kernel_times
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet

_CHANGED = ("conv", "batch_norm", "pool")
"""Beginnings of the kinds of work whose time depends on how images lie in memory."""

_CONVERTS = re.compile("nchwToNhwc|nhwcToNchw")
"""Kernels of cuDNN that put channels next to each other for a convolution, and apart again."""


@dataclass(frozen=True)
class ChannelsLast(Pass):
    """Let images lie in memory with their channels next to each other (`memory_format=torch.channels_last`).

    Convolutions, batch norms and pooling over images whose channels lie apart take their measured time times
    what the profile says of the two (of `machine`, else of the device that was recorded), times `slower`.
    Where cuDNN converts images for a convolution and back, those kernels go, and the others keep their times.
    """

    name: ClassVar[str] = "channels-last"
    preserves: ClassVar[str] = "nodes, edges, sizes and groups; every time of other work"
    machine: str = ""
    slower: float = 1.0

    def __post_init__(self) -> None:
        check_slower(self.slower)

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces with the other times; images that all lie so are an error."""
        traces = with_run_times(traces)
        times = kernel_times(traces, self.machine, self.slower, self.name)
        changed = map_bodies(traces, lambda trace: _with_channels_last(trace, times))
        bodies = range(traces.body_count)
        if all((changed.body_at(i).own_ns == traces.body_at(i).own_ns).all() for i in bodies):
            raise TraceError(f"{self}: no convolution reads images whose channels lie apart")
        return changed

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many kernels take another time, over all bodies."""
        pairs = [(before.body_at(i), after.body_at(i)) for i in range(before.body_count)]
        return {"kernels": sum(int((a.own_ns != b.own_ns).sum()) for a, b in pairs)}


def _with_channels_last(trace: Trace, times: KernelTimes) -> Trace:
    own, launchers = trace.own_ns.astype(np.float64), Launchers(trace)
    names = names_of(trace)
    for work in operations_of(trace):
        rows = list(work.rows)
        operator = launchers.operator(rows[0])
        if operator is None or not work.operation.kind.startswith(_CHANGED):
            continue
        call = launchers.call(operator)
        after = _last(call)
        if after == call:
            continue
        converts = [row for row in rows if _CONVERTS.search(str(names[row]))]
        old, new = (times.nanoseconds(c) for c in (call, after))
        if converts:
            own[rows] *= times.slower
            own[converts] = 0.0
        elif old and new:
            own[rows] *= new / old * times.slower
    return with_own_ns(trace, np.rint(own).astype(np.int64))


def _last(call: Call) -> Call:
    """The call with its images' channels next to each other."""

    def changed(argument: Argument) -> Argument:
        return _image(argument) if isinstance(argument, Operand) else argument

    outputs = [_image(tensor) for tensor in call.outputs]
    return call._replace(inputs=[changed(a) for a in call.inputs], outputs=outputs)


def _image(tensor: Operand) -> Operand:
    if len(tensor.shape) != 4 or not tensor.contiguous:
        return tensor
    _, channels, height, width = tensor.shape
    strides = (channels * height * width, 1, width * channels, channels)
    return tensor._replace(strides=strides)
