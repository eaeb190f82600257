"""Record a window of steps of a PyTorch program: observer, Kineto, process groups, overhead.

This file stands alone: it needs PyTorch and the standard library and nothing else, so it can be
copied to a machine where nothing can be installed. What it writes is linked with `chakra link`,
wherever chakrakit is.

    with Collector("out", steps=(10, 12)) as c:
        for batch in data:
            train(batch)
            c.step()

Files, one of each a rank N:
    et_N.json.gz       the observer's recording of the window
    kineto_N.json.gz   Kineto's recording of the same steps
    times_N.json.gz    Kineto alone, of as many steps before it (two passes)
    card_N.json        machine, versions, steps, groups, and what recording costs
"""

from __future__ import annotations

import atexit
import gc
import gzip
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

ENVIRONMENT = "CHAKRA_COLLECT"
"""Holds the settings, as JSON, for a program that is recorded without being changed."""

GROUP_MARK = "chakra:group="
"""Prefix of the annotation that says which process group a collective runs in."""

_COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "send",
    "recv",
    "isend",
    "irecv",
    "all_reduce_coalesced",
    "all_gather_into_tensor_coalesced",
)
_PROBE_OPERATORS = 2000
_BARE_STEPS = 8
_FEWEST_BARE_STEPS = 3
_SETTLE_S = 0.001


def parse_steps(text: str) -> tuple[int, int]:
    """`10:12` as (10, 12): record steps 10 and 11, counted from 0."""
    first, colon, last = text.partition(":")
    try:
        begin = int(first or 0)
        end = int(last) if colon else begin + 1
    except ValueError:
        raise ValueError(f"steps {text!r} should look like 10:12") from None
    if not 0 <= begin < end:
        raise ValueError(f"steps {text!r} hold none; the first must be below the last")
    return begin, end


class Collector:
    """Records steps `steps[0]` up to, not including, `steps[1]`, counted from 0.

    Call `step()` after each step. With `two_pass` as many steps just before the window are recorded
    with Kineto alone, whose times are not slowed by the observer; the window must then begin that
    late. Leaving the context ends a window that is still open and writes what it has.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        steps: tuple[int, int] = (2, 4),
        *,
        two_pass: bool = False,
        shapes: bool = True,
        stacks: bool = False,
        overhead: bool = True,
    ) -> None:
        length = steps[1] - steps[0]
        if length < 1 or steps[0] < (length if two_pass else 0):
            raise ValueError(f"steps {steps} hold none, or leave no room for the first pass")
        self.directory = Path(directory)
        self.first, self.last = steps
        self.shapes, self.stacks, self.overhead = shapes, stacks, overhead
        self.times_from = self.first - length if two_pass else self.first
        self.done = False
        self._count = 0
        self._recording: _Recording | None = None
        self._bare: dict[str, int] = {}
        self._bare_from = max(1, self.times_from - _BARE_STEPS)
        self._bare_began = self._bare_step_ns = 0
        self._restore: Callable[[], None] = lambda: None

    # --- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Collector:
        self.directory.mkdir(parents=True, exist_ok=True)
        # Now, because the device's tracer stays loaded after the first recording and goes on costing.
        self._bare = probe(None) if self.overhead else {}
        self._restore = mark_groups(self._settling)
        self._turn()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def step(self) -> None:
        """One step is over."""
        if self._recording is not None:
            self._recording.end_step()
        self._count += 1
        self._turn()

    def finish(self) -> None:
        """End what is open and write the card; does nothing the second time."""
        if self.done:
            return
        self.done = True
        self._end_recording()
        self._restore()
        write_json(self._path("card", ".json"), self._card())

    # --- what happens between steps -----------------------------------------------------------------

    def _turn(self) -> None:
        self._time_bare_steps()
        if self._count == self.first and self.times_from < self.first:
            self._end_recording()
        if self._count == self.last:
            self._end_recording()
            self.finish()
        if self._count == self.times_from and self.times_from < self.first:
            self._recording = _Recording(self._path("times", ".json.gz"), None, self)
        elif self._count == self.first:
            observer = self._path("et", ".json.gz")
            self._recording = _Recording(self._path("kineto", ".json.gz"), observer, self)
        if self._recording is not None:
            self._recording.begin_step(self._count)

    def _time_bare_steps(self) -> None:
        """Time the last steps before anything is recorded, from device at rest to device at rest."""
        count = self.times_from - self._bare_from
        if count < _FEWEST_BARE_STEPS or self._count not in (self._bare_from, self.times_from):
            return
        synchronize()
        now = time.perf_counter_ns()
        if self._count == self._bare_from:
            self._bare_began = now
        else:
            self._bare_step_ns = (now - self._bare_began) // count

    def _settling(self) -> bool:
        """Only while the observer records, whose times are slowed anyway."""
        return self._recording is not None and self._recording.observer is not None

    def _end_recording(self) -> None:
        if self._recording is not None:
            self._recording.end()
            self._recording = None

    def _path(self, name: str, suffix: str) -> Path:
        return self.directory / f"{name}_{rank()}{suffix}"

    def _card(self) -> dict[str, Any]:
        import torch

        return {
            "tool": "chakra collector",
            "rank": rank(),
            "world_size": world_size(),
            "steps": [self.first, self.last],
            "two_pass": self.times_from < self.first,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "host": platform.node(),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "groups": process_groups(),
            "ddp_groups": ddp_groups(),
            "overhead": self._overhead(),
        }

    def _overhead(self) -> dict[str, int]:
        step = {"step_ns": self._bare_step_ns} if self._bare_step_ns else {}
        return measure_overhead(self._bare, self.shapes) | step if self.overhead else step


class _Recording:
    """One open window of the profiler, with or without the observer."""

    def __init__(self, kineto: Path, observer: Path | None, settings: Collector) -> None:
        import torch.profiler as profiler

        self.kineto, self.observer = kineto, observer
        self._et = None
        self._range: Any = None
        if observer is not None:
            self._raw = observer.with_suffix("")
            self._et = profiler.ExecutionTraceObserver().register_callback(str(self._raw))
        self._profile = profiler.profile(
            activities=_activities(),
            record_shapes=settings.shapes and observer is not None,
            with_stack=settings.stacks,
            with_modules=settings.stacks,
            execution_trace_observer=self._et,
            experimental_config=_sync_events(),
        )
        synchronize()
        self._profile.start()

    def begin_step(self, number: int) -> None:
        import torch

        self._range = torch.autograd.profiler.record_function(f"ProfilerStep#{number}")
        self._range.__enter__()

    def end_step(self) -> None:
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def end(self) -> None:
        self.end_step()
        synchronize()
        self._profile.stop()
        self._profile.export_chrome_trace(str(self.kineto))
        if self._et is not None:
            self._et.unregister_callback()
            _compress(self._raw)


def _activities() -> list[Any]:
    """All this build can record, host and device."""
    profiler: Any = importlib.import_module("torch.profiler")
    return list(profiler.supported_activities())


def _sync_events() -> Any:
    """Ask the device's tracer to say what synchronizations waited for, where it can."""
    import torch

    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):
        return None


def _compress(path: Path) -> None:
    """`path.json` to `path.json.gz`, moved into place when whole."""
    part = path.with_name(path.name + ".gz.part")
    with path.open("rb") as source, gzip.open(part, "wb", 6) as target:
        shutil.copyfileobj(source, target)
    part.replace(path.with_name(path.name + ".gz"))
    path.unlink()


def write_json(path: Path, what: Any) -> None:
    """Readable, and moved into place when whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(what, indent=1) + "\n")
    part.replace(path)


def synchronize() -> None:
    """Wait for the device, if there is one in use."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


# --- process groups ------------------------------------------------------------------------------


def _distributed() -> Any:
    """torch.distributed where it is set up, else None."""
    import torch.distributed as distributed

    ready = distributed.is_available() and distributed.is_initialized()
    return distributed if ready else None


def rank() -> int:
    """Rank of the process; from the environment before torch.distributed is set up."""
    distributed = _distributed()
    return int(distributed.get_rank()) if distributed else int(os.environ.get("RANK", 0))


def world_size() -> int:
    """How many ranks there are."""
    distributed = _distributed()
    return (
        int(distributed.get_world_size()) if distributed else int(os.environ.get("WORLD_SIZE", 1))
    )


def group_name(group: Any) -> str:
    """The name PyTorch records for a group; None means the default one."""
    import torch.distributed.distributed_c10d as c10d

    try:
        return str(c10d._get_process_group_name(group or c10d._get_default_group()))
    except (AttributeError, KeyError, ValueError):
        return ""


def process_groups() -> list[dict[str, Any]]:
    """Every group this rank knows, with its ranks."""
    distributed = _distributed()
    if distributed is None:
        return []
    import torch.distributed.distributed_c10d as c10d

    return [
        {
            "pg_name": name,
            "pg_desc": str(getattr(group, "group_desc", "")),
            "ranks": sorted(c10d._world.pg_group_ranks.get(group, {})) or list(range(world_size())),
            "backend": str(c10d._world.pg_backend_config.get(group, "")),
        }
        for group, name in c10d._world.pg_names.items()
    ]


def ddp_groups() -> list[str]:
    """Groups of the DistributedDataParallel modules: their reducer issues collectives in C++."""
    if _distributed() is None:
        return []
    from torch.nn.parallel import DistributedDataParallel

    # By type: asking lazy objects for their class would wake them.
    modules = (o for o in gc.get_objects() if issubclass(type(o), DistributedDataParallel))
    return sorted({group_name(m.process_group) for m in modules})


def mark_groups(settle: Callable[[], bool] = lambda: False) -> Callable[[], None]:
    """Put an annotation that names the group around every collective; returns what undoes it.

    gloo's own records name none, and c10d's operators show it only as an object. Where `settle`
    says so, a moment is waited after each: gloo ends its record on another thread after the caller
    has gone on, and the observer is not safe against that.
    """
    import torch
    import torch.distributed as distributed

    if not distributed.is_available():
        return lambda: None
    import torch.distributed.distributed_c10d as c10d

    undo: list[Callable[[], None]] = []

    def settled(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if settle() and _uses_gloo():
                time.sleep(_SETTLE_S)
            return result

        return call

    def marked(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with torch.autograd.profiler.record_function(
                GROUP_MARK + group_name(kwargs.get("group"))
            ):
                return function(*args, **kwargs)

        return settled(call)

    for module in (c10d, distributed):
        for name in _COLLECTIVES:
            _replace(module, name, marked, undo)
    # DDP's reducer communicates in C++ during the backward pass.
    _replace(torch.autograd, "backward", settled, undo)

    def restore() -> None:
        for put_back in undo:
            put_back()

    return restore


def _replace(
    owner: Any, name: str, wrap: Callable[[Any], Any], undo: list[Callable[[], None]]
) -> None:
    found = getattr(owner, name, None)
    if callable(found):
        setattr(owner, name, wrap(found))
        undo.append(lambda: setattr(owner, name, found))


def _uses_gloo() -> bool:
    distributed = _distributed()
    return distributed is not None and "gloo" in str(distributed.get_backend())


# --- what recording costs ------------------------------------------------------------------------


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

    found = {"host": _timed(torch.ones(1), how, shapes)}
    if torch.cuda.is_available() and how != "observer":
        found["device"] = _timed(torch.ones(1, device="cuda"), how, shapes)
    return found


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
    import tempfile

    import torch.profiler as profiler

    if how is None:
        return lambda: None
    folder = tempfile.mkdtemp()
    observer = None
    if how == "observer":
        observer = profiler.ExecutionTraceObserver().register_callback(f"{folder}/et.json")
    profile = profiler.profile(
        activities=_activities(), record_shapes=shapes, execution_trace_observer=observer
    )
    profile.start()

    def stop() -> None:
        profile.stop()
        if observer is not None:
            observer.unregister_callback()
        shutil.rmtree(folder, ignore_errors=True)

    return stop


# --- programs that are not changed -----------------------------------------------------------------


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then(module)` once `name` has been imported, without importing it itself."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self.then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install_from_environment() -> None:
    """Record this process as `CHAKRA_COLLECT` says: a step ends with each optimizer step.

    Called from a `sitecustomize` that `chakra collect` puts first on the path. Nothing happens in
    processes that never take an optimizer step, such as launchers.
    """
    said = os.environ.get(ENVIRONMENT)
    if not said:
        return
    settings = json.loads(said)
    sys.meta_path.insert(0, _AfterImport("torch.optim.optimizer", lambda m: _install(m, settings)))


def _install(module: ModuleType, settings: dict[str, Any]) -> None:
    state: dict[str, Any] = {}

    def after_step(optimizer: Any) -> None:
        first = state.setdefault("optimizer", id(optimizer))
        if first != id(optimizer):
            return  # several optimizers make one step: the first one counts
        if "collector" not in state:
            steps = tuple(settings["steps"])
            extra = {k: settings[k] for k in ("two_pass", "stacks") if k in settings}
            state["collector"] = Collector(settings["directory"], steps, **extra)
            # The first optimizer step is over when we get here: step 0 cannot be recorded.
            state["collector"].__enter__()
            atexit.register(state["collector"].finish)
        if not state["collector"].done:
            state["collector"].step()

    # Around PyTorch's own wrapper: inside it the optimizer's range is still open, and a profiler
    # that stops inside a range corrupts its stack.
    optimizer_type: Any = module.Optimizer
    wrap = optimizer_type.profile_hook_step

    def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
        inner = wrap(function)

        @wraps(inner)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = inner(optimizer, *args, **kwargs)
            after_step(optimizer)
            return result

        return step

    optimizer_type.profile_hook_step = staticmethod(profile_hook_step)
