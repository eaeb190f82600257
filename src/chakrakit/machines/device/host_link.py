"""How long copies between a device and its host take, by the link between the two."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.machines.device.device import Device
from chakrakit.operators import PAGEABLE, Operation, host_copy
from chakrakit.trace.model import Trace

ASSUMED = 63e9
"""Bytes per second each way of PCI Express 5 x16, for devices whose files do not say."""
PINNED_SHARE = 0.87
"""What copies of pinned memory reach of the link: 54.8 and 55.1 of 63 GB/s to and from an H200, the medians
of 84 copies of 32 MiB each way in recordings of PyTorch's profiler."""
PAGEABLE_SHARE = 0.37
"""What the driver, which stages pageable memory, reaches: 5.8 of 15.75 GB/s to an RTX 2080 Ti, copies of 73
MiB in a recording that comes with MLCommons Chakra. Hosts differ more than links do; this is the only one."""
PINNED_ERROR, PAGEABLE_ERROR = 0.1, 0.5
"""Relative errors. Assumed: one host each was measured."""


def host_copy_seconds(operation: Operation, device: Device) -> float:
    """Seconds of a copy between a device and its host."""
    share = PAGEABLE_SHARE if operation.table == PAGEABLE else PINNED_SHARE
    link = device.host_bandwidth or ASSUMED
    return max(device.kernel_overhead, operation.bytes / (share * link))


def host_copy_rows(trace: Trace, device: Device) -> tuple[Mask, F64]:
    """Which rows copy between host and device, and the seconds of each."""
    codes, names = trace.texts("name")
    rows, seconds = np.zeros(len(trace), np.bool_), np.zeros(len(trace))
    copies = [code for code, name in enumerate(names) if host_copy(name, 1)]
    if not copies:
        return rows, seconds
    moved = trace.column("tensor_size", 0)
    for row in np.flatnonzero(np.isin(codes, copies) & (moved > 0)).tolist():
        operation = host_copy(names[codes[row]], float(moved[row]))
        assert operation is not None
        rows[row], seconds[row] = True, host_copy_seconds(operation, device)
    return rows, seconds
