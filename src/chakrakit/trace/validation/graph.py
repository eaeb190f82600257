"""Rules of the graph: ids, dependencies and cycles, over a trace that comes in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, U8, U64, Mask
from chakrakit.errors import TraceError
from chakrakit.trace.model import (
    FORM_SHIFT,
    KIND_BITS,
    PARENT_COLUMNS,
    Dependencies,
    EdgeForm,
    EdgeKind,
    Graph,
    Trace,
    edge_codes,
    edge_columns_that_fit,
    parents_by_id,
    resolve,
)
from chakrakit.trace.validation.findings import Entries, Findings, PieceSpool

# Circles in a graph with data and control edges: one to show, and the control edges that close them.
#
# Control dependencies of recorded traces are often call stacks, and some contradict the data dependencies:
# a caller that follows what it called. Without those the trace runs; with them it never does.


@dataclass(frozen=True)
class Circles:
    """A circle as rows, each needed by the next; and which edges are control edges that close one.

    `closing` is None where data edges alone make a circle: then no control edge is to blame.
    """

    path: list[int]
    closing: I64 | None


def find_circles(n: int, src: I32, dst: I32, form: U8, ctrl: Mask) -> Circles | None:
    """None for a graph without circles. Without the closing edges there are none left."""
    per_row = 2 if form.any() else 1
    a, b = _ends(src, dst, form) if per_row == 2 else (src, dst)
    rows = np.arange(n, dtype=np.int32)
    start_to_end = (2 * rows, 2 * rows + 1) if per_row == 2 else (rows[:0], rows[:0])
    size = n * per_row
    whole = Graph(size, np.concatenate([start_to_end[0], a]), np.concatenate([start_to_end[1], b]))
    circle = whole.find_cycle()
    if circle is None:
        return None
    data = Graph(
        size,
        np.concatenate([start_to_end[0], a[~ctrl]]),
        np.concatenate([start_to_end[1], b[~ctrl]]),
    )
    data_circle = data.find_cycle()
    path = _as_rows(data_circle or circle, per_row)
    if data_circle is not None:
        return Circles(path, None)
    place, component = _places(data), components(whole)
    closing = ctrl & (component[a] == component[b]) & (place[a] >= place[b])
    return Circles(path, np.flatnonzero(closing))


def _ends(src: I32, dst: I32, form: U8) -> tuple[I32, I32]:
    """The events an edge joins: starts are 2 × row, ends 2 × row + 1."""
    from_end = (form != EdgeForm.START_START).astype(np.int32)
    to_end = (form == EdgeForm.FINISH_FINISH).astype(np.int32)
    return 2 * src + from_end, 2 * dst + to_end


def _as_rows(events: list[int], per_row: int) -> list[int]:
    rows = [e // per_row for e in events]
    return [r for i, r in enumerate(rows) if r != rows[i - 1]] or rows[:1]


def _places(data: Graph) -> I64:
    """An order that the data edges keep: that of the file where they keep it."""
    if (data.src < data.dst).all():
        return np.arange(data.n)
    place = np.empty(data.n, np.int64)
    place[data.topological_order()] = np.arange(data.n)
    return place


def components(graph: Graph) -> I64:
    """A number for each row, equal for rows that reach each other (Tarjan's algorithm)."""
    offsets, targets = graph.out_offsets.tolist(), graph.out_targets
    component = np.arange(graph.n, dtype=np.int64)
    number = dict.fromkeys(_suspects(graph).tolist(), 0)
    low: dict[int, int] = {}
    stack: list[int] = []
    counter = 0
    for root in number:
        if number[root]:
            continue
        work = [(root, offsets[root])]
        while work:
            v, at = work.pop()
            if at == offsets[v] and not number[v]:
                counter += 1
                number[v] = low[v] = counter
                stack.append(v)
            for at in range(at, offsets[v + 1]):  # noqa: B020 - goes on where it left off
                w = int(targets[at])
                if w not in number:
                    continue
                if not number[w]:
                    work += [(v, at), (w, offsets[w])]
                    break
                if w in low:
                    low[v] = min(low[v], low[w])
            else:
                if low[v] == number[v]:
                    while low.pop(stack[-1]) and stack[-1] != v:
                        component[stack.pop()] = v
                    component[stack.pop()] = v
    return component


def _suspects(graph: Graph) -> I64:
    """Rows that are on a circle or between circles: neither sorted from the front nor from the back."""
    from_front = np.ones(graph.n, np.bool_)
    from_front[graph.sortable] = False
    from_back = np.ones(graph.n, np.bool_)
    from_back[Graph(graph.n, graph.dst, graph.src).sortable] = False
    return np.flatnonzero(from_front & from_back)


# A set of node ids that is small where ids are dense, which they nearly always are.


_Run = tuple[U64, U64]


class IdSet:
    """Ids as ranges of consecutive ones, in a few sorted runs.

    A run of a million ids without gaps takes 16 bytes; ids without order or neighbours take 16 bytes
    each. Runs of similar length are merged, so there are about log(n) of them, and adding n ids costs
    n log n in all.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, ids: U64) -> None:
        """Adds ids in any order; those that are there already do no harm."""
        if not len(ids):
            return
        if not (ids[1:] > ids[:-1]).all():
            ids = np.unique(ids)
        gaps = np.flatnonzero(ids[1:] - ids[:-1] != 1)
        self._runs.append((ids[np.r_[0, gaps + 1]], ids[np.r_[gaps, len(ids) - 1]]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]

    def contains(self, ids: U64) -> Mask:
        """For each id, whether it was added."""
        contained = np.zeros(len(ids), np.bool_)
        for first, last in self._runs:
            place = np.searchsorted(first, ids, "right")
            contained |= (place > 0) & (ids <= last[place - 1])
        return contained


def _merged(a: _Run, b: _Run) -> _Run:
    first, last = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    apart = (first[1:] > last[:-1]) & (first[1:] - last[:-1] != 1)
    cuts = np.flatnonzero(apart)
    return first[np.r_[0, cuts + 1]], last[np.r_[cuts, len(last) - 1]]


_SHOWN = 8
"""Nodes of a circle that a message lists: about two lines with their names."""
_FORM, _CTRL = np.uint8(0x7F), np.uint8(0x80)
_DANGLING = {
    "dangling-data": (
        "data_deps",
        "find the lost node, or remove the reference if what it made is not needed",
    ),
    "dangling-control": ("ctrl_deps", "--fix drops the reference"),
    "dangling-parent": ("parent", "make the trace again, or remove the attribute everywhere"),
}
"""Where a reference that leads nowhere stands, and what to do about it."""


@dataclass(frozen=True)
class _Open:
    """Dependencies on ids that had not been seen when they were read."""

    src: U64
    dst: I64
    ctrl: Mask


class GraphChecker:
    """Checks ids and dependencies: add() each piece in file order, then finish() once.

    A dependency on an earlier node is settled at once and forgotten; one on an id not yet seen stays
    open until the end, when it is dangling or points forward. Every circle has a dependency that
    points forward, so only the rows that such dependencies span are looked at for cycles.
    """

    def __init__(self, rank: int | None, findings: Findings) -> None:
        self._rank, self._findings = rank, findings
        self._read_ids = IdSet()
        self._open: list[_Open] = []
        self._open_parents: list[tuple[U64, I64]] = []
        self._nesting: dict[str, list[tuple[U64, U64]]] = {name: [] for name in PARENT_COLUMNS}
        """By attribute, the ids of nodes that have a parent, and its id."""
        self._spans: list[tuple[I64, I64]] = []
        self.spool = PieceSpool()
        self.dangling_control = np.zeros(0, np.uint64)
        """After finish(): the ids that control dependencies name and no node has."""
        self.circular_control = np.zeros((2, 0), np.uint64)
        """After finish(): (source, target) ids of control dependencies that close circles."""

    def add(self, piece: Trace) -> None:
        """The next nodes of the file."""
        base, ids = self.spool.rows, piece.ids
        deps = Dependencies.of(piece.table)
        codes, lags = edge_codes(piece.table, deps)
        form = self._check_edge_columns(piece, deps, codes)
        self._check_ids(piece)
        self._check_repeats(piece, deps, codes, lags)
        on_itself = ids[deps.dst] == deps.ids
        for ctrl, code in ((False, "self-data"), (True, "self-control")):
            self._report(
                code, piece, deps.dst[on_itself & (deps.ctrl == ctrl)], "depends on itself"
            )
        self._place(deps, resolve(ids, deps.ids), ~on_itself, base)
        self._read_ids.add(ids)
        self._note_parents(piece, base)
        dst = deps.dst[~on_itself].astype(np.int64) + base
        form |= np.where(deps.ctrl, _CTRL, np.uint8(0))
        self.spool.add(piece, Entries(deps.ids[~on_itself], dst, form[~on_itself]))

    def _place(self, deps: Dependencies, rows: I32, on_others: Mask, base: int) -> None:
        """Resolves dependencies on nodes read so far; notes those that point forward or nowhere yet."""
        ahead = on_others & (rows > deps.dst)
        if ahead.any():
            self._spans.append((deps.dst[ahead] + np.int64(base), rows[ahead] + np.int64(base)))
        outside = np.flatnonzero(rows < 0)
        unseen = outside[~self._read_ids.contains(deps.ids[outside])]
        if len(unseen):
            dst = deps.dst[unseen].astype(np.int64) + base
            self._open.append(_Open(deps.ids[unseen], dst, deps.ctrl[unseen]))

    def _note_parents(self, piece: Trace, base: int) -> None:
        """Notes who runs inside whom, and parents that are not read yet: they come later, or not at all."""
        for name, pairs in self._nesting.items():
            if len(inside := np.flatnonzero(piece.has(name))):
                pairs.append((piece.ids[inside], piece.column(name, 0)[inside].astype(np.uint64)))
        rows = np.flatnonzero(piece.has("parent"))
        parent_ids = piece.column("parent", 0)[rows].astype(np.uint64)
        unseen = ~self._read_ids.contains(parent_ids)
        if unseen.any():
            self._open_parents.append((parent_ids[unseen], rows[unseen] + base))

    def _check_edge_columns(self, piece: Trace, deps: Dependencies, codes: U8) -> U8:
        """Reports what does not fit; gives each entry's form, finish→start where it is not known."""
        for column, code in (
            ("edge_kinds", "edge-kinds-length"),
            ("edge_lags_ns", "edge-lags-length"),
        ):
            wrong = piece.has(column) & ~edge_columns_that_fit(piece.table, deps, column)
            self._report(
                code,
                piece,
                np.flatnonzero(wrong),
                f"{column} has another length than its data_deps and ctrl_deps together",
            )
        kind, form = codes & KIND_BITS, codes >> FORM_SHIFT
        odd = (kind > max(EdgeKind)) | (form > max(EdgeForm))
        rows = np.unique(deps.dst[odd])
        self._report(
            "edge-kinds-code", piece, rows, "edge_kinds holds a kind or form that is unknown"
        )
        return np.where(form > max(EdgeForm), np.uint8(EdgeForm.FINISH_START), form)

    def _check_ids(self, piece: Trace) -> None:
        ids = piece.ids
        again = self._read_ids.contains(ids)
        if not (ids[1:] > ids[:-1]).all():
            order = np.argsort(ids, kind="stable")
            again[order[1:][ids[order[1:]] == ids[order[:-1]]]] = True
        self._report("duplicate-id", piece, np.flatnonzero(again), "has the id of an earlier node")

    def _check_repeats(self, piece: Trace, deps: Dependencies, codes: U8, lags: I64) -> None:
        repeats = repeated(deps, codes, lags)
        self._report("duplicate-dependency", piece, deps.dst[repeats], "lists a dependency twice")

    def _report(self, code: str, piece: Trace, rows: NDArray[np.generic], text: str) -> None:
        if len(rows):
            self._findings.add_rows(code, self._rank, piece, rows.tolist(), lambda _row: text)

    # --- after the last piece -----------------------------------------------------------------

    def finish(self) -> None:
        """Reports dangling dependencies and parents, and a cycle, if there is one."""
        if self._open_parents:
            src, dst = (np.concatenate([p[i] for p in self._open_parents]) for i in (0, 1))
            self._open_parents.clear()
            self._report_dangling("dangling-parent", src, dst, ~self._read_ids.contains(src))
        self._check_nesting()
        if self._open:
            src, dst, ctrl = (
                np.concatenate([getattr(o, f) for o in self._open]) for f in ("src", "dst", "ctrl")
            )
            self._open.clear()
            exists = self._read_ids.contains(src)
            self._report_dangling("dangling-data", src, dst, ~exists & ~ctrl)
            self._report_dangling("dangling-control", src, dst, ~exists & ctrl)
            self.dangling_control = np.unique(src[~exists & ctrl])
            if exists.any():
                self._spans.append((dst[exists], self._rows_of(src[exists])))
        if self._spans:
            self._report_cycle()

    def _check_nesting(self) -> None:
        """Reports nodes that run inside each other in a circle, by the attribute that every reader takes."""
        pairs = next(filter(None, self._nesting.values()), [])
        if not pairs:
            return
        ids, parent_ids = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
        try:
            parents_by_id(ids, parent_ids, np.ones(len(ids), np.bool_))
        except TraceError as error:
            self._findings.add("parent-cycle", self._rank, str(error))

    def _report_dangling(self, code: str, src: U64, dst: I64, is_dangling: Mask) -> None:
        entries = np.flatnonzero(is_dangling)
        entries = entries[np.argsort(dst[entries], kind="stable")]
        listed_entries = entries[: self._findings.room(code, self._rank)]
        nodes = self.spool.nodes(dst[listed_entries].tolist())
        column, cure = _DANGLING[code]
        for i in listed_entries.tolist():
            node, name = nodes[int(dst[i])]
            text = f"{column} names id {src[i]}, which no node has; {cure}"
            self._findings.add(code, self._rank, text, node=node, name=name)
        self._findings.count(code, self._rank, len(entries) - len(listed_entries))

    def _rows_of(self, node_ids: U64) -> I64:
        """The row of each id, all of which are there."""
        node_rows = np.full(len(node_ids), -1, np.int64)
        for first, ids in self.spool.ids():
            rows = resolve(ids, node_ids)
            new = (rows >= 0) & (node_rows < 0)
            node_rows[new] = rows[new] + np.int64(first)
        return node_rows

    def _report_cycle(self) -> None:
        first, last = (np.concatenate([s[i] for s in self._spans]) for i in (0, 1))
        rows = _covered(first, last)
        src, dst, form = self._edges_among(rows)
        circles = find_circles(len(rows), src, dst, form & _FORM, (form & _CTRL) != 0)
        if circles is None:
            return
        circle = [int(rows[r]) for r in circles.path]
        nodes = self.spool.nodes([*circle[:_SHOWN], *circle[-2:]])
        node, name = nodes[circle[0]]
        text = (
            f"{len(circle):,} nodes wait for each other and can never run: {_path(circle, nodes)}"
        )
        if circles.closing is None:
            self._findings.add(
                "cycle",
                self._rank,
                f"{text}; remove one of these dependencies",
                node=node,
                name=name,
            )
            return
        self._note_closing(rows, src[circles.closing], dst[circles.closing])
        count = len(circles.closing)
        text += (
            f"; {count:,} control dependencies go against the data dependencies, --fix drops them"
        )
        self._findings.add("control-cycle", self._rank, text, node=node, name=name, count=count)

    def _note_closing(self, rows: I64, src: I32, dst: I32) -> None:
        ids = self._ids_of(rows)
        self.circular_control = np.unique(np.stack([ids[src], ids[dst]]), axis=1)

    def _ids_of(self, rows: I64) -> U64:
        return np.concatenate(
            [i[rows[(rows >= f) & (rows < f + len(i))] - f] for f, i in self.spool.ids()]
        )

    def _edges_among(self, rows: I64) -> tuple[I32, I32, U8]:
        """The dependencies among these rows, which are numbered from 0 in their order."""
        ids = self._ids_of(rows)
        src, dst, form = [], [], []
        for entries in self.spool.entries():
            target = np.searchsorted(rows, entries.dst)
            inside = rows[np.minimum(target, len(rows) - 1)] == entries.dst
            source = resolve(ids, entries.src[inside])
            resolved = source >= 0
            src.append(source[resolved])
            dst.append(target[inside][resolved].astype(np.int32))
            form.append(entries.form[inside][resolved])
        return np.concatenate(src), np.concatenate(dst), np.concatenate(form)


def repeated(deps: Dependencies, codes: U8, lags: I64) -> I64:
    """Entries that repeat an earlier entry of the same list: same id, kind, form and lag."""
    counts = np.bincount(2 * deps.dst.astype(np.int64) + deps.ctrl)
    several = np.flatnonzero(counts[2 * deps.dst.astype(np.int64) + deps.ctrl] > 1)
    keys = [a[several] for a in (lags, codes, deps.ids, deps.ctrl, deps.dst)]
    order = np.lexsort((deps.slot[several], *keys))
    same = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    return np.sort(several[order[1:][same]])


def _covered(first: I64, last: I64) -> I64:
    """All rows within any of the spans, ascending."""
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    cuts = np.flatnonzero(first[1:] > last[:-1])
    starts, ends = first[np.r_[0, cuts + 1]], last[np.r_[cuts, len(last) - 1]]
    sizes = ends - starts + 1
    before = np.cumsum(sizes) - sizes
    rows: I64 = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
    return rows


def _path(circle: list[int], nodes: dict[int, tuple[int, str]]) -> str:
    def step(row: int) -> str:
        return f"{nodes[row][0]} {nodes[row][1]!r}"

    if len(circle) <= _SHOWN:
        steps = [step(r) for r in circle]
    else:
        steps = [step(r) for r in circle[: _SHOWN - 2]] + ["…"] + [step(r) for r in circle[-2:]]
    return " → ".join([*steps, str(nodes[circle[0]][0])])
