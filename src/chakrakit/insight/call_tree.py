"""Device time by module, operator and kernel as one tree, for any stretch of a rank's time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.insight.operators import spent_on
from chakrakit.insight.rank import KIND_NAMES, RankView
from chakrakit.trace.model import depth_of
from chakrakit.trace.timing import Intervals

_DOTTED = re.compile(r"[\w\[\]<>-]+(\.[\w\[\]<>-]+)+$")
"""Names that are paths: `layers.3.mlp.up`, and not `void at::native::kernel<0.5>(…)`."""
_DEEPEST = 64
"""Calls nested deeper than this count for the one around them."""


@dataclass(frozen=True)
class CallTreeNode:
    """One node of the tree: what ran inside it counts for it too."""

    name: str
    depth: int
    kind: str
    """What takes most of its time: compute, communication or copy, or one of WAITS."""
    time_ns: int
    count: int
    """Rows that worked for it."""


WAITS = ("late ranks", "bubble")
"""What communication that only waits does instead: waits for ranks that come late, or for messages."""


def call_tree(
    view: RankView, begin_ns: int, end_ns: int, least: float = 0.0, waits: Sequence[Intervals] = ()
) -> list[CallTreeNode]:
    """All calls in depth-first order, the longest of each level first; those below `least` of all left out.

    Layers and other parts that are numbered count as one (`layers.*`). The first call is the whole. `waits`
    are the times of WAITS, where they are known: communication that waits then is apart from all calls.
    """
    rows = np.flatnonzero(view.works_on_device & (view.end > begin_ns) & (view.start < end_ns))
    length = np.maximum(view.end[rows] - view.start[rows], 1)
    inside = np.minimum(view.end[rows], end_ns) - np.maximum(view.start[rows], begin_ns)
    nanos = spent_on(view, rows) * (np.maximum(inside, 0) / length)
    paths = _Paths()
    leaf = _paths_of(view, rows, paths)
    kind = view.kind[rows].astype(np.int64)
    talks = np.flatnonzero(view.is_comm[rows])
    begin, end = np.maximum(view.start[rows], begin_ns), np.minimum(view.end[rows], end_ns)
    for number, (name, waiting) in enumerate(zip(WAITS, waits, strict=False)):
        waited = waiting.share_of(begin[talks], end[talks])
        at, waited = talks[waited > 0], waited[waited > 0]
        nanos[at] -= waited
        leaf = np.append(leaf, np.full(len(at), paths.below(0, [name]))) if len(at) else leaf
        kind = np.append(kind, np.full(len(at), len(KIND_NAMES) + number))
        nanos = np.append(nanos, waited)
    return paths.calls(leaf, nanos, kind, least)


def _paths_of(view: RankView, rows: I64, paths: _Paths) -> I64:
    """The path of each working row: module, the calls around its operator, its operator, itself."""
    operator = view.operator[rows].astype(np.int64)
    called = view.on_host[operator]
    out = np.zeros(len(rows), np.int64)
    if called.any():
        of_host = _host_paths(view, paths, np.unique(operator[called]))
        out[called] = of_host[operator[called]]
    codes, texts = view.names
    module, modules = view.texts("module")
    own = codes[rows].astype(np.int64)
    keys = np.stack(
        [out, np.where(called, -1, module[rows]), np.where(called & (operator == rows), -1, own)]
    )
    distinct, where = np.unique(keys, axis=1, return_inverse=True)
    ends = [
        paths.below(
            int(at), [*_parts(modules[m] if m >= 0 else ""), *_parts(texts[n] if n >= 0 else "")]
        )
        for at, m, n in distinct.T.tolist()
    ]
    return np.array(ends, np.int64)[where.reshape(-1)]


def _host_paths(view: RankView, paths: _Paths, wanted: I64) -> I64:
    """The path of each wanted host row and of those around it; 0 for others."""
    codes, texts = view.names
    out, around = np.zeros(len(view), np.int64), [wanted]
    for _ in range(_DEEPEST):
        outer = view.parent[around[-1]]
        if not (outer >= 0).any():
            break
        around.append(np.unique(outer[outer >= 0]).astype(np.int64))
    rows = np.unique(np.concatenate(around))
    depth = depth_of(view.parent)[rows]
    for level in np.unique(depth).tolist():
        mine = rows[depth == level]
        outer = np.where(view.parent[mine] >= 0, out[np.maximum(view.parent[mine], 0)], 0)
        keys = outer * len(texts) + codes[mine]
        distinct, where = np.unique(keys, return_inverse=True)
        ends = [
            paths.below(k // len(texts), _parts(texts[k % len(texts)])) for k in distinct.tolist()
        ]
        out[mine] = np.array(ends, np.int64)[where]
    return out


def _parts(name: str) -> list[str]:
    """The steps of a name that is a path, with numbers taken for each other; else the name itself."""
    if not name:
        return []
    parts = name.split(".") if _DOTTED.match(name) else [name]
    return ["*" if part.isdigit() else part for part in parts]


class _Paths:
    """Paths as a tree of numbers: 0 is the whole."""

    def __init__(self) -> None:
        self._below: dict[tuple[int, str], int] = {}
        self._names, self._outer = ["all"], [0]

    def below(self, at: int, names: list[str]) -> int:
        """The path that goes on from `at` with these names."""
        for name in names:
            found = self._below.get((at, name))
            if found is None:
                found = self._below[at, name] = len(self._names)
                self._names.append(name)
                self._outer.append(at)
            at = found
        return at

    def calls(self, leaf: I64, nanos: F64, kind: I64, least: float) -> list[CallTreeNode]:
        """The tree of all paths with the times of those that end in them, depth first."""
        names = [*KIND_NAMES.values(), *WAITS]
        size, kinds = len(self._names), len(names)
        times = np.bincount(leaf * kinds + kind, nanos, minlength=size * kinds).reshape(size, kinds)
        counts = np.bincount(leaf, minlength=size)
        for path in range(size - 1, 0, -1):  # those inside have higher numbers
            times[self._outer[path]] += times[path]
            counts[self._outer[path]] += counts[path]
        total = times.sum(axis=1)
        inner: list[list[int]] = [[] for _ in range(size)]
        for path in np.argsort(-total, kind="stable").tolist():
            if path and total[path] > least * total[0]:
                inner[self._outer[path]].append(path)
        calls: list[CallTreeNode] = []
        stack = [(0, 0)]
        while stack:
            path, depth = stack.pop()
            main = names[int(times[path].argmax())]
            calls.append(
                CallTreeNode(self._names[path], depth, main, round(total[path]), int(counts[path]))
            )
            stack += [(p, depth + 1) for p in reversed(inner[path])]
        return calls
