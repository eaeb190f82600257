"""One open window of the profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .device import activities, sync_events, synchronize
from .files import compress


class Recording:
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
