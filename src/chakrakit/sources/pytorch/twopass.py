"""Two passes: times from a recording without the observer, structure from one with it."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from chakrakit.sources.pytorch.join import Join
from chakrakit.sources.pytorch.kineto import Kind, Kineto
from chakrakit.sources.pytorch.observer import Observer
from chakrakit.sources.pytorch.sequences import align

I64 = NDArray[np.int64]

_STEP = re.compile(r"^ProfilerStep#\d+$")


def align_passes(observer: Observer, times: Kineto) -> Join:
    """Give every timed event the observer's operator at the same place of a step.

    Every step of `times` is laid beside the observer's recording, thread by thread, by order and
    name; the number in a step's own name does not count. An operator may so stand for one event a
    step; `event_of` holds the first.
    """
    left, right = _common_names(observer, times)
    operator_of = np.full(len(times), -1, np.int64)
    rows = np.flatnonzero(observer.is_operator)
    events = np.flatnonzero((times.kind == Kind.OPERATOR) | (times.kind == Kind.ANNOTATION))
    events = events[np.lexsort((-times.end[events], times.start[events]))]
    for step in _steps(times, events):
        for tid in np.unique(observer.tid[rows]):
            mine = rows[observer.tid[rows] == tid]
            theirs = _likest(left[mine], right, times.tid, step)
            a, b = align(left[mine], right[theirs])
            operator_of[theirs[b]] = mine[a]
    event_of = np.full(len(observer), -1, np.int64)
    paired = events[operator_of[events] >= 0][::-1]
    event_of[operator_of[paired]] = paired
    return Join(event_of, {"order and name (two passes)": len(paired)}, operator_of)


def _common_names(observer: Observer, times: Kineto) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Names of both sides in one numbering."""
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(_STEP.sub("ProfilerStep#", text), len(numbers))

    left = np.array([number(s) for s in observer.texts.strings], np.int32)
    right = np.array([number(s) for s in times.texts.strings], np.int32)
    return left[observer.name], right[times.name]


def _steps(times: Kineto, events: I64) -> list[I64]:
    """The events of each step, or all of them where no step is marked."""
    is_step = times.texts.where(_STEP.match)[times.name[events]]
    marks = events[is_step]
    if not len(marks):
        return [events]
    start = times.start[events]
    return [events[(start >= times.start[m]) & (start <= times.end[m])] for m in marks]


def _likest(wanted: NDArray[np.int32], names: NDArray[np.int32], tids: I64, events: I64) -> I64:
    """Of all threads, the events of the one with most names in common."""
    size = int(max(names.max(initial=0), wanted.max(initial=0))) + 1
    want = np.bincount(wanted, minlength=size)
    best, score = events[:0], 0
    for tid in np.unique(tids[events]):
        theirs = events[tids[events] == tid]
        common = int(np.minimum(np.bincount(names[theirs], minlength=size), want).sum())
        if common > score:
            best, score = theirs, common
    return best
