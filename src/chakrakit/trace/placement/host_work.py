"""What the host does itself where nothing runs on a device: which rows compute, which wait for data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.operators import asks_loader, computes
from chakrakit.trace.model import Trace
from chakrakit.trace.placement.rows import on_host

_MARK = re.compile(r"^ProfilerStep#\d+$|^PyTorch Profiler")
_DEEPEST = 64


def named(trace: Trace, test: Callable[[str], Any]) -> Mask:
    """Rows whose name passes the test, which is called once per distinct name."""
    codes, texts = trace.texts("name")
    return np.array([bool(test(t)) for t in texts] or [False], np.bool_)[codes]


def is_mark(trace: Trace) -> Mask:
    """Rows that only mark a range, such as a profiler's step."""
    return on_host(trace) & named(trace, _MARK.match)


def is_leaf(trace: Trace) -> Mask:
    """Rows with nothing inside."""
    leaf = np.ones(len(trace), np.bool_)
    leaf[trace.parent[trace.parent >= 0]] = False
    return leaf


def waits_for_loader(trace: Trace) -> Mask:
    """Host rows in which the program waits for its data loader, and what runs inside them."""
    loads = on_host(trace) & named(trace, asks_loader)
    if not loads.any():
        return loads
    for _ in range(_DEEPEST):
        inside = (trace.parent >= 0) & loads[np.maximum(trace.parent, 0)] & ~loads
        if not inside.any():
            break
        loads |= inside
    return loads


def computes_on_host(trace: Trace) -> Mask:
    """Host rows whose own time is computation: compute operators whatever they call, and unknown leaves.

    Views, allocations, questions, announcements of communication and what a data loader calls are the
    host's.
    """
    known = named(trace, lambda name: computes(name) is not None)
    works = np.where(known, named(trace, computes), is_leaf(trace) & ~is_mark(trace))
    return np.asarray(on_host(trace) & works & ~waits_for_loader(trace), np.bool_)
