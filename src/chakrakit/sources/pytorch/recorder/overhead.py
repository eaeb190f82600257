"""What recording costs: a small operator timed with and without."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .device import activities, synchronize

_PROBE_OPERATORS = 2000


def measure_overhead(bare: dict[str, int], shapes: bool = True) -> dict[str, int]:
    """Nanoseconds that recording adds: per operator, per launch, and per operator observed.

    `bare` is what `probe(None)` gave before anything was recorded in this process.
    """
    kineto, observed = probe("kineto"), probe("observer", shapes)
    operator = max(0, kineto["host"] - bare["host"])
    launch = max(0, kineto.get("device", 0) - bare.get("device", 0) - operator)
    return {
        "operator_ns": operator,
        "observer_ns": max(0, observed["host"] - kineto["host"]),
        "launch_ns": launch,
        "call_ns": launch // 3,
    }


def probe(how: str | None, shapes: bool = False) -> dict[str, int]:
    """Nanoseconds a small operator takes the host, bare or recorded; on a device too, if there is one.

    Medians of a few runs, so that one disturbance does not count.
    """
    import torch

    times = {"host": _timed(torch.ones(1), how, shapes)}
    if torch.cuda.is_available() and how != "observer":
        times["device"] = _timed(torch.ones(1, device="cuda"), how, shapes)
    return times


def _many(tensor: Any) -> None:
    """Small enough that the device keeps up: what is timed is the host."""
    for _ in range(_PROBE_OPERATORS):
        tensor.neg_()
    synchronize()


def _timed(tensor: Any, how: str | None, shapes: bool) -> int:
    """Nanoseconds per operator."""
    _many(tensor)
    runs = []
    for _ in range(3):
        stop = _probe(how, shapes)
        begin = time.perf_counter_ns()
        _many(tensor)
        runs.append((time.perf_counter_ns() - begin) // _PROBE_OPERATORS)
        stop()
    return int(statistics.median(runs))


def _probe(how: str | None, shapes: bool) -> Callable[[], None]:
    """Start recording into nowhere; returns what stops it."""
    import torch.profiler as profiler

    if how is None:
        return lambda: None
    folder = tempfile.mkdtemp()
    observer = None
    if how == "observer":
        observer = profiler.ExecutionTraceObserver().register_callback(f"{folder}/et.json")
    profile = profiler.profile(
        activities=activities(), record_shapes=shapes, execution_trace_observer=observer
    )
    profile.start()

    def stop() -> None:
        profile.stop()
        if observer is not None:
            observer.unregister_callback()
        shutil.rmtree(folder, ignore_errors=True)

    return stop
