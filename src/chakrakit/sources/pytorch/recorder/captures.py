"""CUDA graphs being captured: each capture is recorded, since operators are known only then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .recording import Recording

_MOST_CAPTURES = 64
"""Recorded captures of one process; serving engines capture one graph per batch size."""


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
            state["open"] = Recording(path, None, shapes=True, stacks=False, captures=True)
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
