"""Record a window of steps of a PyTorch program: observer, Kineto, process groups, overhead.

This folder stands alone: it needs PyTorch and the standard library and nothing else, so it can be
copied to a machine where nothing can be installed. What it writes is linked with `chakra link`,
wherever chakrakit is.

    with Collector("out", steps=(10, 12)) as c:
        for batch in data:
            train(batch)
            c.step()

Files of rank N:
    et_N.json.gz         the observer's recording of the window
    kineto_N.json.gz     Kineto's recording of the same steps
    times_N.json.gz      Kineto alone, of as many steps before it (two passes)
    capture_I_N.json.gz  the I-th CUDA graph being captured
    card_N.json          machine, versions, steps, groups, settings, what recording costs, generated kernels
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .generated import generated_code
from .groups import ddp_groups, mark_groups, process_groups, rank, world_size
from .profiler import (
    ProfilerWindow,
    measure_overhead,
    probe,
    record_captures,
    synchronize,
    write_json,
)
from .settings import global_settings

_BARE_STEPS = 8
"""Steps timed before anything is recorded: enough to average over, and few enough to wait for."""
_FEWEST_BARE_STEPS = 3
"""With fewer than this one disturbed step would decide the average, so none is reported."""


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
    with Kineto alone, whose times are not slowed by the observer; by default so wherever the window
    begins late enough. Up to eight bare steps are timed before that. Leaving the context ends a
    window that is still open and writes what it has.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        steps: tuple[int, int] = (10, 12),
        *,
        two_pass: bool | None = None,
        shapes: bool = True,
        stacks: bool = False,
        overhead: bool = True,
    ) -> None:
        length = steps[1] - steps[0]
        if two_pass is None:
            two_pass = steps[0] >= length
        if length < 1 or steps[0] < (length if two_pass else 0):
            raise ValueError(f"steps {steps} hold none, or leave no room for the first pass")
        self.directory = Path(directory)
        self.first, self.last = steps
        self.shapes, self.stacks, self.overhead = shapes, stacks, overhead
        self.times_from = self.first - length if two_pass else self.first
        self.done = False
        self._count = 0
        self._recording: ProfilerWindow | None = None
        self._settings: dict[str, Any] = {}
        self._bare: dict[str, int] = {}
        self._bare_from = max(1, self.times_from - _BARE_STEPS)
        self._bare_began = self._bare_step_ns = 0
        self._restore: Callable[[], None] = lambda: None

    # --- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Collector:
        self.directory.mkdir(parents=True, exist_ok=True)
        # A card says that its rank has finished: one of an earlier recording would say so too soon.
        self._path("card", ".json").unlink(missing_ok=True)
        # Now, because the device's tracer stays loaded after the first recording and goes on costing.
        self._bare = probe(None) if self.overhead else {}
        restore = (
            mark_groups(self._settling),
            record_captures(self._capture_path, lambda: self._recording is None),
        )
        self._restore = lambda: _each(restore)
        self._turn()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def step(self) -> None:
        """Tell the collector that a step has ended."""
        if self._recording is not None:
            self._settings = self._settings or global_settings()
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
            self._recording = ProfilerWindow(
                self._path("times", ".json.gz"), None, self.shapes, self.stacks
            )
        elif self._count == self.first:
            observer = self._path("et", ".json.gz")
            self._recording = ProfilerWindow(
                self._path("kineto", ".json.gz"), observer, self.shapes, self.stacks
            )
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
        """Whether to wait after collectives: only while the observer records, which slows times anyway."""
        return self._recording is not None and self._recording.observer is not None

    def _end_recording(self) -> None:
        if self._recording is not None:
            self._recording.end()
            self._recording = None

    def _capture_path(self, number: int) -> Path:
        return self._path(f"capture_{number}", ".json.gz")

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
            "settings": self._settings or global_settings(),
            "overhead": self._overhead(),
            "generated": generated_code(),
        }

    def _overhead(self) -> dict[str, int]:
        step = {"step_ns": self._bare_step_ns} if self._bare_step_ns else {}
        return measure_overhead(self._bare, self.shapes) | step if self.overhead else step


def _each(functions: tuple[Callable[[], None], ...]) -> None:
    for function in functions:
        function()
