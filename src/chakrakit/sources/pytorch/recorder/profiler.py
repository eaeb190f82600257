"""PyTorch's profiler as the collector uses it: what it can record, one open window of it, what it costs.

A window writes Kineto's file and, where asked for, the observer's. CUDA graphs being captured get windows
of their own, since only then are their operators known.
"""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PROBE_OPERATORS = 2000
"""Operators in one timed loop: a few milliseconds, long against the clock and short against the program."""
_MOST_CAPTURES = 64
"""Recorded captures of one process; serving engines capture one graph per batch size."""


def synchronize() -> None:
    """Wait for the device, if there is one in use."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def activities() -> list[Any]:
    """All activities that this build of PyTorch can record, of host and device."""
    profiler: Any = importlib.import_module("torch.profiler")
    return list(profiler.supported_activities())


def sync_events() -> Any:
    """A configuration that makes the tracer record what synchronizations waited for; None if it cannot."""
    import torch

    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):
        return None


def compress(path: Path) -> None:
    """`path.json` to `path.json.gz`, moved into place when whole."""
    part = path.with_name(path.name + ".gz.part")
    with path.open("rb") as source, gzip.open(part, "wb", 6) as target:
        shutil.copyfileobj(source, target)
    part.replace(path.with_name(path.name + ".gz"))
    path.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write a value as indented JSON, moved into place when whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


class ProfilerWindow:
    """One open window of the profiler, with or without the observer."""

    def __init__(
        self,
        kineto: Path,
        observer: Path | None,
        shapes: bool,
        stacks: bool,
        captures: bool = False,
    ) -> None:
        import torch.profiler as profiler

        self.kineto, self.observer = kineto, observer
        self._et = None
        self._range: Any = None
        if observer is not None:
            self._raw = observer.with_suffix("")
            self._et = profiler.ExecutionTraceObserver().register_callback(str(self._raw))
        self._profile = profiler.profile(
            activities=activities(),
            record_shapes=shapes and (observer is not None or captures),
            with_stack=stacks,
            with_modules=stacks,
            execution_trace_observer=self._et,
            experimental_config=sync_events(),
        )
        synchronize()
        self._profile.start()

    def begin_step(self, number: int) -> None:
        """Open the range of a step."""
        import torch

        self._range = torch.autograd.profiler.record_function(f"ProfilerStep#{number}")
        self._range.__enter__()

    def end_step(self) -> None:
        """Close the range that is open."""
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def end(self) -> None:
        """Stop recording and write the files."""
        self.end_step()
        synchronize()
        self._profile.stop()
        self._profile.export_chrome_trace(str(self.kineto))
        if self._et is not None:
            self._et.unregister_callback()
            compress(self._raw)


def record_captures(path_of: Callable[[int], Path], free: Callable[[], bool]) -> Callable[[], None]:
    """Record every capture that `torch.cuda.graph` makes while `free` says so; returns what undoes it.

    `torch.compile`'s reduce-overhead mode and `make_graphed_callables` capture through it too. While
    steps are recorded, a capture is part of their recording.
    """
    import torch

    kind: Any = getattr(torch.cuda, "graph", None)
    if kind is None or not torch.cuda.is_available():
        return lambda: None
    enter, leave = kind.__enter__, kind.__exit__
    state: dict[str, Any] = {"count": 0, "open": None}

    def begin(self: Any) -> Any:
        if free() and state["open"] is None and state["count"] < _MOST_CAPTURES:
            path = path_of(state["count"])
            state["open"] = ProfilerWindow(path, None, shapes=True, stacks=False, captures=True)
            state["count"] += 1
        return enter(self)

    def end(self: Any, *error: Any) -> Any:
        try:
            return leave(self, *error)
        finally:
            recording, state["open"] = state["open"], None
            if recording is not None:
                recording.end()

    kind.__enter__, kind.__exit__ = begin, end

    def restore() -> None:
        kind.__enter__, kind.__exit__ = enter, leave

    return restore


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
    """Run many operators small enough for the device to keep up, so that the host is what is timed."""
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
    """Start a recording that is thrown away; returns the function that stops it."""
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
