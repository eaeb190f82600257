"""Two passes: times from a recording without the observer, operators from one with it."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from chakrakit.arrays import I32, I64
from chakrakit.sources.pytorch.joining import Join, align
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer

_STEP = re.compile(r"^ProfilerStep#\d+$")


def align_passes(observer: Observer, times: Kineto) -> Join:
    """Give every timed event the observer's operator at the same place of a step.

    Steps are laid side by side in order (the observer's last one serves for all that follow), and
    within a step threads are, by order and name; the number in a step's own name does not count.
    What ran on another thread than it was begun on is then paired by name alone. An operator may thus
    stand for several events; `event_of` holds the first.
    """
    observed_names, timed_names = _common_names(observer, times)
    operator_of = np.full(len(times), -1, np.int64)
    events = np.flatnonzero((times.kind == Kind.OPERATOR) | (times.kind == Kind.ANNOTATION))
    events = events[np.lexsort((-times.end[events], times.start[events]))]
    observed = _observed_steps(observer)
    for number, step in enumerate(_steps(times, events)):
        rows = observed[min(number, len(observed) - 1)]
        for tid in np.unique(observer.tid[rows]):
            mine = rows[observer.tid[rows] == tid]
            theirs = _likest(observed_names[mine], timed_names, times.tid, step)
            a, b = align(observed_names[mine], timed_names[theirs])
            operator_of[theirs[b]] = mine[a]
        _pair_leftovers(observed_names, timed_names, rows, step, operator_of)
    event_of = np.full(len(observer), -1, np.int64)
    paired = events[operator_of[events] >= 0][::-1]
    event_of[operator_of[paired]] = paired
    return Join(event_of, {"order and name (two passes)": len(paired)}, operator_of)


def _observed_steps(observer: Observer) -> list[I64]:
    """The observer's operators step by step, or all together where no step is marked."""
    rows = np.flatnonzero(observer.is_operator)
    marks = rows[observer.texts.where(_STEP.match)[observer.name[rows]]]
    if len(marks) < 2:
        return [rows]
    return [rows[(rows >= a) & (rows < b)] for a, b in pairwise([*marks, len(observer)])]


def _pair_leftovers(
    observed_names: I32, timed_names: I32, rows: I64, events: I64, operator_of: I64
) -> None:
    """The n-th open operator of a name is the n-th open event of that name."""
    used = np.zeros(len(observed_names), np.bool_)
    used[operator_of[events[operator_of[events] >= 0]]] = True
    waiting: dict[int, list[int]] = {}
    for row in rows[~used[rows]].tolist():
        waiting.setdefault(int(observed_names[row]), []).append(row)
    for event in events[operator_of[events] < 0].tolist():
        same = waiting.get(int(timed_names[event]))
        if same:
            operator_of[event] = same.pop(0)


def _common_names(observer: Observer, times: Kineto) -> tuple[I32, I32]:
    """Names of both sides in one numbering."""
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(_STEP.sub("ProfilerStep#", text), len(numbers))

    observed = np.array([number(s) for s in observer.texts.strings], np.int32)
    timed = np.array([number(s) for s in times.texts.strings], np.int32)
    return observed[observer.name], timed[times.name]


def _steps(times: Kineto, events: I64) -> list[I64]:
    """The events of each step, or all of them where no step is marked."""
    is_step = times.texts.where(_STEP.match)[times.name[events]]
    marks = events[is_step]
    if not len(marks):
        return [events]
    start = times.start[events]
    return [events[(start >= times.start[m]) & (start <= times.end[m])] for m in marks]


def _likest(thread_names: I32, names: I32, tids: I64, events: I64) -> I64:
    """Of all threads, the events of the one with most names in common."""
    size = int(max(names.max(initial=0), thread_names.max(initial=0))) + 1
    name_counts = np.bincount(thread_names, minlength=size)
    best, score = events[:0], 0
    for tid in np.unique(tids[events]):
        theirs = events[tids[events] == tid]
        common = int(np.minimum(np.bincount(names[theirs], minlength=size), name_counts).sum())
        if common > score:
            best, score = theirs, common
    return best
