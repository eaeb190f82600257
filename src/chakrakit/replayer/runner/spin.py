"""Taking up time: on the host by asking the clock, on a device with a kernel that counts cycles."""

from __future__ import annotations

import time
from typing import Any

_SLEEP_NS = 2_000_000
"""Shorter waits are spun: sleeping is not exact enough for them."""
_PROBE_CYCLES = 20_000_000
"""Some 10 ms at the 1 to 2 GHz of devices: long beside the 0.5 µs that events are exact to."""


def spin_host(nanoseconds: int) -> None:
    """Keep this thread busy."""
    end = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < end:
        pass


def wait_until(moment: int) -> None:
    """Wait for a moment of `perf_counter_ns` without using the processor for most of it."""
    while True:
        left = moment - time.perf_counter_ns()
        if left <= 0:
            return
        if left > _SLEEP_NS:
            time.sleep((left - _SLEEP_NS) / 1e9)
        else:
            time.sleep(left / 2e9)


def cycles_per_ns(torch: Any) -> float:
    """How fast the device counts, measured once."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_PROBE_CYCLES)
    begin.record()
    torch.cuda._sleep(_PROBE_CYCLES)
    end.record()
    end.synchronize()
    return float(_PROBE_CYCLES / (begin.elapsed_time(end) * 1e6))
