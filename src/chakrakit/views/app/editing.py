"""What can be edited in a run, and what its edits come to, as the page asks for it."""

from __future__ import annotations

import threading
from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.passes.base import classes_of, names_of
from chakrakit.simulator.collectives import ALGORITHMS
from chakrakit.simulator.results import EditSession
from chakrakit.trace.model import COMMUNICATION, EdgeKind
from chakrakit.views.app.edited_side import EditedSide
from chakrakit.views.app.shown_run import Recent, ShownRun

_MOST_EDITS = 50
"""Edits of one request: a screen of them, so that what it asks for stays bounded."""
_MOST_LETTERS = 4_000
"""Of all edits together: a page's requests have no more."""
_LISTED = 40
"""Kernels, links and waits that the page offers: those that take most; others are found in the timeline."""
_SIDES = 8
"""Edited timelines that stay in memory, for going back and forth."""


class Editing:
    """Edits of one shown run."""

    def __init__(self, original: ShownRun, machine: str = "") -> None:
        self._original, self._machine = original, machine
        self._sides: Recent[EditedSide] = Recent(threading.RLock(), _SIDES)

    @cached_property
    def session(self) -> EditSession:
        """The run laid out for being scheduled again."""
        return EditSession(self._original.run, self._machine)

    def side(self, texts: list[str]) -> EditedSide:
        """The run under these edits, to be drawn."""
        _check(texts)
        key = tuple(texts)
        return self._sides.get(key, lambda: EditedSide(self._original, self.session.edited(texts)))

    def outcome(self, texts: list[str]) -> dict[str, Any]:
        """What the edits come to, and the command lines that come to the same."""
        _check(texts)
        edited = self.session.edited(texts)
        return {
            "original": edited.original_ns,
            "edited": edited.makespan_ns,
            "took_ms": edited.took_ms,
            "commands": self.session.command_lines(edited.edits, self._original.path),
            "alike": edited.keeps_ranks_alike,
        }

    def offered(self) -> dict[str, Any]:
        """What the page offers to change: classes, kernels, waits, groups, collectives, links, ranks."""
        classes: Counter[str] = Counter()
        kernels: Counter[str] = Counter()
        waits: Counter[str] = Counter()
        groups: Counter[str] = Counter()
        traces = self.session.timed
        bodies = Counter(b.body for b in traces.bindings.values())
        host = all(traces.body_at(number).on_host.all() for number in bodies)  # a CPU's recording
        for number, ranks in bodies.items():
            trace = traces.body_at(number)
            own, device = trace.own_ns * ranks, trace.on_host == host
            for name, nanos in _sums(classes_of(trace)[device], own[device]).items():
                classes[name] += nanos
            names = names_of(trace)
            works = device & ~trace.is_type(*COMMUNICATION)
            for name, nanos in _sums(names[works], own[works]).items():
                kernels[name] += nanos
            sync = trace.edges.dst[trace.edges.kind == EdgeKind.SYNC]
            waits.update(dict(Counter(names[sync].tolist())))
            calls = trace.is_type(*COMMUNICATION) & device
            groups.update(dict(Counter(trace.column("pg_name", "")[calls].tolist())))
        total = max(sum(classes.values()), 1)
        return {
            "classes": [[n, v / total] for n, v in classes.most_common() if n != "none"],
            "kernels": [[n, v / total] for n, v in kernels.most_common(_LISTED)],
            "waits": waits.most_common(_LISTED),
            "groups": [name for name in groups if name],
            "machine": self.session.machine_name,
            "algorithms": {n: list(of) for n, of in ALGORITHMS.items()}
            if self._has_machine
            else {},
            "links": self._links(),
            "ranks": len(self._original.run),
            "host": host,
        }

    @property
    def _has_machine(self) -> bool:
        return bool(self.session.machine_name)

    def _links(self) -> list[str]:
        """The busiest links, as ends."""
        table = self._original.run.counters.get("links")
        if table is None or not self.session.machine_name:
            return []
        columns = table.to_pydict() if hasattr(table, "to_pydict") else dict(table)
        order = np.argsort(-np.asarray(columns["utilization"], np.float64), kind="stable")[:_LISTED]
        return [f"{columns['src'][i]}-{columns['dst'][i]}" for i in order.tolist()]


def _sums(names: Any, nanos: Any) -> dict[str, int]:
    texts, codes = np.unique(names.astype(str), return_inverse=True)
    sums = np.bincount(codes, nanos, len(texts))
    return {str(t): int(s) for t, s in zip(texts, sums, strict=True)}


def _check(texts: list[str]) -> None:
    if len(texts) > _MOST_EDITS or sum(map(len, texts)) > _MOST_LETTERS:
        raise ConfigError(f"at most {_MOST_EDITS} edits, and {_MOST_LETTERS:,} letters in all")
