"""Why one run takes longer than another: its work, its durations and its gaps exchanged class by class.

A critical path says what a run is made of. When one class of work becomes faster, the path moves to other
work, and the difference of two paths names both. What changed in the first place comes out by scheduling run
A again with the times of run B, one class of rows after the other:

    work        rows that only one of the runs has, and rows of other sizes
    durations   the same work in another time
    gaps        between kernels, and between a launch and its kernel
    structure   what is left: the same work in the same times, in another order or with other dependencies

The parts sum to the difference of the two steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from zlib import crc32

import msgspec
import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.errors import DeadlockError
from chakrakit.insight.communication import AllCalls
from chakrakit.insight.critical_path import Model, RankGraphs, events_of, graph_of
from chakrakit.insight.rank import KIND_NAMES, RankView, RowKind, rank_views, short
from chakrakit.insight.step_times import rows_of_steps
from chakrakit.results import Result
from chakrakit.trace.communication import turns
from chakrakit.trace.model import EdgeForm, EdgeKind
from chakrakit.trace.placement import StepRows, slowest
from chakrakit.trace.sets import Run

_MOST_ROWS = 2_000_000
"""Larger runs are not scheduled again: each class costs one schedule of all rows."""
_MOST_CLASSES = 24
"""Classes exchanged one by one; the rest goes by kind of work, since each costs one more schedule."""
_ROUNDING_NS = 1
"""Times of equal work may differ by this much: both runs round to whole nanoseconds."""
_HOST_GAPS = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)
_DEVICE_GAPS = {EdgeKind.STREAM: "between kernels", EdgeKind.LAUNCH: "between launch and kernel"}
WORK, DURATIONS, GAPS, STRUCTURE = "work", "durations", "gaps", "structure"


class Explained(Result, msgspec.Struct):
    """A part of the step's difference, positive where B takes longer; all parts sum to the difference."""

    what: str
    """The class of work, such as `compute: aten::mm`."""
    delta_ns: int
    change: str = ""
    """`work`, `durations`, `gaps`, `overlap` or `waiting`; empty where the runs could not be exchanged."""


@dataclass(frozen=True, eq=False)
class _Side:
    """A run as a model; `label` is each row's class of work as an index into `texts`; `steps` is by rank."""

    model: Model
    label: I32
    texts: list[str]
    key: I64
    """What each row is paired by: its rank, its name, and how often the rank ran that name before."""
    work: I64
    """A digest of each row's sizes; rows that do the same work have the same."""
    steps: list[StepRows | None]
    """None for a rank whose run is one step."""

    def step(self, own_ns: I64 | None = None) -> int:
        """The usual step in ns with the model's own times or these; the whole run where it has no steps."""
        timed = self.model.schedule(own_ns)
        ranks = []
        for rows, first in zip(self.steps, self.model.offset.values(), strict=True):
            if rows is not None:
                spans = rows.spans(timed.start[first:], timed.end[first:])
                ranks.append({s.number: s.period for s in spans})
        return slowest(ranks) if any(ranks) else int(timed.end.max(initial=0))


def explanation(a: Run, b: Run) -> list[Explained] | None:
    """What the change from A's scheduled step to B's is made of, largest first.

    The last part, `structure`, may be 0. None where the runs have other ranks, are too large, or depend on
    what came later, so that no exchange of times can be scheduled.
    """
    if a.ranks != b.ranks or sum(len(r.body(k)) for r in (a, b) for k in r.ranks) > 2 * _MOST_ROWS:
        return None
    codes: dict[str, int] = {}
    try:
        return _explained(_side_of(a, codes), _side_of(b, codes))
    except DeadlockError:
        return None


def _explained(a: _Side, b: _Side) -> list[Explained]:
    whole = b.step() - a.step()
    parts = [*_exchange(a, b), *_added(a, b)]
    parts = [p for p in parts if p.delta_ns]
    parts.sort(key=lambda p: (-abs(p.delta_ns), p.what))
    return [*parts, Explained(STRUCTURE, whole - sum(p.delta_ns for p in parts), STRUCTURE)]


# --- a run as a side ------------------------------------------------------------------------------


def _side_of(run: Run, codes: dict[str, int]) -> _Side:
    """The run as a side; `codes` numbers the names of rows, and is shared with the other side."""
    graphs, calls = RankGraphs(), AllCalls(run)
    texts: dict[str, int] = {}
    labels, steps, keys, works = [], [], [], []
    for number, view in enumerate(rank_views(run)):
        graphs.add(graph_of(view))
        calls.add_view(view)
        labels.append(_labels(view, texts))
        keys.append(_keys(view, number, codes))
        works.append(_sizes(view))
        step_source, rows = rows_of_steps(view)
        steps.append(None if step_source == "none" else rows)
    none = np.zeros(0, np.int64)
    return _Side(
        Model(graphs, calls.matched()),
        np.concatenate([*labels, none]).astype(np.int32),
        list(texts),
        np.concatenate([*keys, none]),
        np.concatenate([*works, none]),
        steps,
    )


def _labels(view: RankView, texts: dict[str, int]) -> I64:
    """The class of each row: its kind and its operator."""
    events = events_of(view, None)
    pairs, place = np.unique(
        np.stack([view.kind.astype(np.int64), events.operator.astype(np.int64)]),
        axis=1,
        return_inverse=True,
    )
    names = [
        f"{KIND_NAMES[k]}: {short(events.texts[n])}" if k != RowKind.NONE else KIND_NAMES[k]
        for k, n in pairs.T.tolist()
    ]
    numbers = np.array([texts.setdefault(t, len(texts)) for t in names] or [0], np.int64)
    return numbers[place.reshape(-1)]


def _keys(view: RankView, number: int, codes: dict[str, int]) -> I64:
    """Rows of one name in the order in which they ran; rows that did not run have keys of their own."""
    name, texts = view.names
    pairs = np.stack([view.trace.types.astype(np.int64), name.astype(np.int64)])
    distinct, place = np.unique(pairs, axis=1, return_inverse=True)
    labels = [f"{kind} {texts[n]}" for kind, n in distinct.T.tolist()]
    numbers = np.array([codes.setdefault(t, len(codes)) for t in labels] or [0], np.int64)
    code = numbers[place.reshape(-1)]
    order = np.lexsort((np.arange(len(view)), view.start))
    turn = np.empty(len(view), np.int64)
    turn[order] = turns(code[order])
    return (np.int64(number) << 44) + (code << 24) + turn


def _sizes(view: RankView) -> I64:
    """A digest of FLOPs, bytes, sizes of messages and shapes of each row."""
    digest = np.zeros(len(view), np.int64)
    for column in ("num_ops", "tensor_size", "comm_size"):
        digest = digest * 1_000_003 + view.trace.column(column, 0).astype(np.int64)
    codes, texts = view.texts("inputs_shapes")
    sums = np.array([*(crc32(t.encode()) for t in texts), 0], np.int64)
    return digest * 1_000_003 + sums[codes]


# --- rows and gaps of A with the times of B -------------------------------------------------------


def _twins(a: _Side, b: _Side) -> I64:
    """For each row of A its twin in B; -1 for none."""
    same = len(a.key) == len(b.key) and a.texts == b.texts
    if same and bool((a.label == b.label).all()):
        return np.arange(len(a.key))
    _, mine, theirs = np.intersect1d(a.key, b.key, assume_unique=True, return_indices=True)
    twin = np.full(len(a.key), -1, np.int64)
    twin[mine] = theirs
    return twin


def _exchange(a: _Side, b: _Side) -> list[Explained]:
    """By how much A's step changes as one class of rows after another gets B's times and gaps."""
    twin = _twins(a, b)
    own, lags = _own_in(b, twin, a), _lags_in(b, twin, a)
    classes, row_class, edge_class = _classes(a, b, twin)
    order = _by_change(a, own, lags, row_class, edge_class, len(classes))
    model, rows = a.model, a.model.rows
    now_own, kept = model.own.copy(), model.edges.lag.copy()
    parts, before = [], a.step()
    try:
        for (change, text), numbers in _exchange_groups(classes, order).items():
            mine: Mask = np.isin(row_class, numbers)
            now_own[:rows][mine] = own[mine]
            edges = np.isin(edge_class, numbers)
            model.edges.lag[edges] = lags[edges]
            after = a.step(now_own)
            parts.append(Explained(text, after - before, change))
            before = after
    finally:
        model.edges.lag[:] = kept
    return parts


def _own_in(b: _Side, twin: I64, a: _Side) -> I64:
    """The own times of A's rows as B has them; rows that B lacks take none."""
    own = np.zeros(a.model.rows, np.int64)
    both = twin >= 0
    own[both] = b.model.own[twin[both]]
    return own


def _lags_in(b: _Side, twin: I64, a: _Side) -> I64:
    """The lags of A's edges as B has them: of transfers, and of gaps between rows that both have."""
    model, other = a.model, b.model
    lag = model.edges.lag.copy()
    rows = np.flatnonzero(model.transfer[: model.rows] >= 0)
    theirs = np.where(twin[rows] >= 0, other.transfer[np.maximum(twin[rows], 0)], -1)
    lag[model.transfer[rows]] = np.where(theirs >= 0, other.edges.lag[np.maximum(theirs, 0)], 0)
    (mine, keys), (their_edges, their_keys) = (
        _gaps(model, twin, other.n),
        _gaps(other, None, other.n),
    )
    if len(their_keys):
        at = np.minimum(np.searchsorted(their_keys, keys), len(their_keys) - 1)
        both = their_keys[at] == keys
        lag[mine[both]] = other.edges.lag[their_edges[at[both]]]
    return lag


def _gaps(model: Model, twin: I64 | None, size: int) -> tuple[I64, I64]:
    """The edges whose lag is a gap, sorted by a key that they have in both runs."""
    edges = model.edges
    gaps = np.flatnonzero(np.isin(edges.kind, (*_HOST_GAPS, *_DEVICE_GAPS)))
    src, dst = edges.src[gaps].astype(np.int64), edges.dst[gaps].astype(np.int64)
    if twin is not None:
        whole = np.concatenate([twin, np.full(model.n - len(twin), -1, np.int64)])
        src, dst = whole[src], whole[dst]
        gaps, src, dst = (x[(src >= 0) & (dst >= 0)] for x in (gaps, src, dst))
    keys = (src * size + dst) * len(EdgeForm) + edges.form[gaps]
    order = np.argsort(keys, kind="stable")
    return gaps[order], keys[order]


def _classes(a: _Side, b: _Side, twin: I64) -> tuple[list[tuple[str, str]], I64, I64]:
    """(change, class of work) of each number; the number of each row; that of each edge, -1 for none."""
    count = len(a.texts)
    other_work = twin < 0
    both = np.flatnonzero(twin >= 0)
    other_work[both] = a.work[both] != b.work[twin[both]]
    row_class = a.label.astype(np.int64) + np.where(other_work, count, 0)
    classes = [(change, text) for change in (DURATIONS, WORK) for text in a.texts]
    edge_class = np.full(len(a.model.edges), -1, np.int64)
    for kind, text in _DEVICE_GAPS.items():
        edge_class[a.model.edges.kind == kind] = len(classes)
        classes.append((GAPS, f"gaps: {text}"))
    owner = _edge_owner(a.model)
    owned = owner >= 0
    edge_class[owned] = row_class[owner[owned]]
    return classes, row_class, edge_class


def _edge_owner(model: Model) -> I64:
    """For each edge, the row that its lag belongs to: a transfer's call, or a gap's caller; -1 for others."""
    owner = np.full(len(model.edges), -1, np.int64)
    gaps = np.flatnonzero(np.isin(model.edges.kind, _HOST_GAPS))
    owner[gaps] = model.holder[model.edges.dst[gaps]]
    rows = np.flatnonzero(model.transfer >= 0)
    owner[model.transfer[rows]] = rows
    return owner


def _by_change(
    a: _Side, own: I64, lags: I64, row_class: I64, edge_class: I64, count: int
) -> list[int]:
    """The classes that differ, those that differ most first."""
    amount = np.zeros(count)
    moved = np.abs(own - a.model.own[: a.model.rows])
    np.add.at(amount, row_class, np.where(moved > _ROUNDING_NS, moved, 0))
    lag = np.abs(lags - a.model.edges.lag)
    owned = np.flatnonzero((edge_class >= 0) & (lag > _ROUNDING_NS))
    np.add.at(amount, edge_class[owned], lag[owned])
    order = np.argsort(-amount, kind="stable")
    differing: list[int] = order[amount[order] > 0].tolist()
    return differing


def _exchange_groups(
    classes: list[tuple[str, str]], order: list[int]
) -> Mapping[tuple[str, str], list[int]]:
    """Classes to exchange together: those that changed most one by one, the rest by kind of work."""
    groups = {classes[number]: [number] for number in order[:_MOST_CLASSES]}
    for number in order[_MOST_CLASSES:]:
        change, text = classes[number]
        groups.setdefault((change, f"{text.partition(':')[0]}: others"), []).append(number)
    return groups


def _added(a: _Side, b: _Side) -> Iterable[Explained]:
    """What the rows add to B's step that A does not have, by kind of work."""
    alone = _twins(b, a) < 0
    own, kept = b.model.own.copy(), b.model.edges.lag.copy()
    owner = _edge_owner(b.model)
    before = b.step()
    try:
        for number, text in enumerate(b.texts):
            mine = alone & (b.label == number)
            if not mine.any():
                continue
            own[: b.model.rows][mine] = 0
            edges = np.flatnonzero(owner >= 0)
            b.model.edges.lag[edges[mine[owner[edges]]]] = 0
            after = b.step(own)
            yield Explained(text, before - after, WORK)
            before = after
    finally:
        b.model.edges.lag[:] = kept
