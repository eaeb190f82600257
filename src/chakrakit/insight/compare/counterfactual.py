"""Why the same program takes longer in another run: its times exchanged class by class.

A critical path says what a run is made of. When one class of work becomes faster, the path moves to
other work, and the difference of two paths names both. What changed in the first place comes out by
scheduling run A again with the times of run B, one class of rows after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.insight.communication import AllCalls
from chakrakit.insight.critical_path import Graphs, Model, events_of, graph_of
from chakrakit.insight.rank import KIND_NAMES, Kind, rank_views, short
from chakrakit.insight.time import rows_of_steps
from chakrakit.trace.model import EdgeForm, EdgeKind
from chakrakit.trace.placement import StepRows, slowest
from chakrakit.trace.sets import Run

_MOST_ROWS = 2_000_000
_MOST_CLASSES = 24
_ROUNDING_NS = 1
_GAPS = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)


@dataclass(frozen=True, eq=False)
class _Side:
    """A run as a model, what each row is called, by the number of a text, and the ranks' steps."""

    model: Model
    label: I32
    texts: list[str]
    steps: list[StepRows | None]
    """None for a rank whose run is one step."""

    def step(self, own: I64 | None = None) -> int:
        """The usual step with the model's times or these, as `compare` takes it; without steps, the whole."""
        timed = self.model.schedule(own)
        ranks = []
        for rows, first in zip(self.steps, self.model.offset.values(), strict=True):
            if rows is not None:
                spans = rows.spans(timed.start[first:], timed.end[first:])
                ranks.append({s.number: s.period for s in spans})
        return slowest(ranks) if any(ranks) else int(timed.end.max(initial=0))


def exchanged(a: Run, b: Run) -> dict[str, float] | None:
    """Shares of the change from A to B by class of work, largest first; they sum to 1.

    None where the runs are not of one program or too large; empty where they take as long as each other.
    """
    if a.ranks != b.ranks or sum(len(a.body(r)) for r in a.ranks) > _MOST_ROWS:
        return None
    left, right = _side(a), _side(b)
    if not _same_program(left, right):
        return None
    whole = right.step() - left.step()
    if not whole:
        return {}
    return {name: change / whole for name, change in _steps(left, right).items()}


def _side(run: Run) -> _Side:
    graphs, calls = Graphs(), AllCalls(run)
    texts: dict[str, int] = {}
    labels, steps = [], []
    for view in rank_views(run):
        graphs.add(graph_of(view))
        calls.add_view(view)
        events = events_of(view, None)
        names = [
            f"{KIND_NAMES[k]}: {short(events.texts[n])}" if k <= Kind.HOST else KIND_NAMES[k]
            for k, n in zip(view.kind.tolist(), events.operator.tolist(), strict=True)
        ]
        found, rows = rows_of_steps(view)
        steps.append(None if found == "none" else rows)
        labels.append(np.array([texts.setdefault(t, len(texts)) for t in names], np.int32))
    model = Model(graphs, calls.matched())
    return _Side(model, np.concatenate([*labels, np.zeros(0, np.int32)]), list(texts), steps)


def _same_program(a: _Side, b: _Side) -> bool:
    """Whether both have the same rows. Lanes and meetings may be in another order."""
    if a.model.rows != b.model.rows or a.texts != b.texts:
        return False
    return bool((a.label == b.label).all() and (a.model.kind == b.model.kind).all())


def _lags(a: Model, b: Model) -> I64:
    """The lags of A's edges with B's transfers and gaps of the host, where B has them."""
    lag = a.edges.lag.copy()
    both = np.flatnonzero((a.transfer[: a.rows] >= 0) & (b.transfer[: b.rows] >= 0))
    lag[a.transfer[both]] = b.edges.lag[b.transfer[both]]
    (mine, keys), (theirs, known) = _gaps(a), _gaps(b)
    if len(known):
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        found = known[at] == keys
        lag[mine[found]] = b.edges.lag[theirs[at[found]]]
    return lag


def _gaps(model: Model) -> tuple[I64, I64]:
    """The edges whose lag is the host's own time, and a key of each by which they are in order."""
    edges, gaps = model.edges, np.flatnonzero(np.isin(model.edges.kind, _GAPS))
    keys = (edges.src[gaps].astype(np.int64) * model.n + edges.dst[gaps]) * len(EdgeForm)
    keys += edges.form[gaps]
    order = np.argsort(keys, kind="stable")
    return gaps[order], keys[order]


def _steps(a: _Side, b: _Side) -> dict[str, int]:
    """What each class adds to the run when it takes B's times, those before it having them already."""
    owner = _edge_owner(a.model)
    changes = np.zeros(len(a.texts) + 1)
    rows = a.model.rows
    moved = np.abs(b.model.own[:rows] - a.model.own[:rows])
    np.add.at(changes, a.label, np.where(moved > _ROUNDING_NS, moved, 0))
    lags = _lags(a.model, b.model)
    lag = np.abs(lags - a.model.edges.lag)
    lag = np.where((owner >= 0) & (lag > _ROUNDING_NS), lag, 0)
    np.add.at(changes, np.where(owner >= 0, a.label[owner], len(a.texts)), lag)
    order = np.argsort(-changes[:-1], kind="stable")
    order = order[changes[order] > 0]
    return _exchange(a, b.model.own, lags, owner, _named(a.texts, order.tolist()))


def _named(texts: list[str], order: list[int]) -> dict[str, list[int]]:
    """Labels to exchange together: those that changed most one by one, the others by kind of work."""
    groups = {texts[code]: [code] for code in order[:_MOST_CLASSES]}
    for code in order[_MOST_CLASSES:]:
        groups.setdefault(f"{texts[code].partition(':')[0]}: others", []).append(code)
    return groups


def _exchange(
    a: _Side, other: I64, lags: I64, owner: I64, groups: Mapping[str, list[int]]
) -> dict[str, int]:
    """A's step, one group of rows after another given the `other` run's own times and lags."""
    model, rows = a.model, a.model.rows
    own, kept = model.own.copy(), model.edges.lag.copy()
    out: dict[str, int] = {}
    before = a.step()
    try:
        for name, codes in groups.items():
            mine: Mask = np.isin(a.label, codes)
            own[:rows][mine] = other[:rows][mine]
            edges = (owner >= 0) & mine[np.maximum(owner, 0)]
            model.edges.lag[edges] = lags[edges]
            now = a.step(own)
            out[name] = now - before
            before = now
    finally:
        model.edges.lag[:] = kept
    return out


def _edge_owner(model: Model) -> I64:
    """The row whose time each edge's lag is: a transfer's, the caller's of a gap; -1 for others."""
    owner = np.full(len(model.edges), -1, np.int64)
    gaps, _ = _gaps(model)
    owner[gaps] = model.holder[model.edges.dst[gaps]]
    rows = np.flatnonzero(model.transfer >= 0)
    owner[model.transfer[rows]] = rows
    return owner
