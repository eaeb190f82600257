"""Repairs that cannot change what a trace means, made in pieces as it is written again.

Only what can never be met is removed: control references to nodes that are not there, to the node itself,
or against the data dependencies. Data dependencies are never touched.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, U8, U64, Mask
from chakrakit.errors import ChakraError, FormatError
from chakrakit.parallel import Workers
from chakrakit.trace.codecs import open_writer, scan_trace
from chakrakit.trace.files import STDIO, open_input, scratch
from chakrakit.trace.model import (
    Dependencies,
    Layout,
    Layouts,
    Member,
    Trace,
    by_name,
    column_name,
    edge_codes,
    edge_columns_that_fit,
)
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import place_of, rank_files, read, write
from chakrakit.trace.validation.check import Checked, Progress, bodies_to_check, check, validate
from chakrakit.trace.validation.findings import KEEP, Findings, Repair, ValidationReport
from chakrakit.trace.validation.graph import repeated
from chakrakit.trace.validation.nodes import misplaced

_REPAIR_TEXTS = {
    "dangling-control": "dropped control references to nodes that do not exist",
    "self-control": "dropped control references of nodes to themselves",
    "control-cycle": "dropped control references that go against the data dependencies",
    "duplicate-dependency": "dropped dependencies listed before",
    "attribute-member": "moved attributes to the oneof member that tools read",
}
_UNREADABLE = {"framing", "run-times"}
"""Findings with which a repaired copy could be read no better."""
_RANGES = {
    Member.int32_val: (-(2**31), 2**31 - 1),
    Member.uint32_val: (0, 2**32 - 1),
    Member.uint64_val: (0, 2**63 - 1),
}


def fix(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    keep: int | None = KEEP,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> ValidationReport:
    """Repairs what is behind `path` into `target`; the report is the target's, and lists the repairs.

    One file becomes one file, in pieces; a prefix or directory becomes a directory, or one file per rank
    where `target` has `.N.` in its name. Where `path` cannot be read to its end, or its times by no
    command, nothing is written, and the report is that of `path`.
    """
    if os.fspath(target) == STDIO:
        raise ChakraError("a repaired trace needs a name: it is read again to be checked")
    if os.fspath(path) == STDIO:
        with scratch("chakra-fix") as folder:
            copy = folder / "stdin.et"  # it is read twice
            with open_input(STDIO) as stream, copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
            return fix(copy, target, keep=keep, progress=progress, workers=workers)
    step = progress or (lambda _piece: None)
    findings = Findings(keep)
    job = bodies_to_check(path, findings)
    checked = check(job, findings, step, workers)
    before = findings.report(checked.ranks, len(job.bodies))
    if before.counts.keys() & _UNREADABLE:
        return before
    repairs = _write_fixed(path, target, checked)
    report = validate(_readable(target), keep=keep, progress=step, workers=workers)
    return _with_repairs(report, repairs)


def _readable(target: str | os.PathLike[str]) -> str:
    """`out.N.et` is read by its prefix."""
    text = os.fspath(target)
    head, dot, _ = text.rpartition(".N.")
    return head if dot else text


def _with_repairs(report: ValidationReport, repairs: Counter[tuple[str, int]]) -> ValidationReport:
    report.repairs = [
        Repair(
            code=code,
            rank=rank,
            count=repairs[code, rank],
            message=f"{repairs[code, rank]:,} {text}",
        )
        for code, text in _REPAIR_TEXTS.items()
        for rank in sorted(r for c, r in repairs if c == code)
    ]
    return report


def _write_fixed(
    path: str | os.PathLike[str], target: str | os.PathLike[str], checked: Checked
) -> Counter[tuple[str, int]]:
    files = rank_files(path)
    fixers = [
        Fixer(r, d, c) for r, d, c in zip(files, checked.dangling, checked.circular, strict=True)
    ]
    if place_of(path).is_file():
        with open_writer(target) as writer:
            for piece in fixers[0].pieces(path):
                writer.write(piece)
    else:
        _write_set(read(path), files, fixers, target)
    return sum((f.repairs for f in fixers), Counter())


def _write_set(
    traces: TraceSet, files: object, fixers: list[Fixer], target: str | os.PathLike[str]
) -> None:
    bodies = [partial(f.repaired, file) for f, file in zip(fixers, files.values(), strict=True)]  # type: ignore[attr-defined]
    if isinstance(traces, Run):
        fixed: TraceSet = Run(
            bodies,
            traces.bindings,
            traces.groups,
            traces.card,
            times=traces.times,
            timing=traces.timing,
            counters=traces.counters,
        )
    else:
        fixed = TraceSet(bodies, traces.bindings, traces.groups, traces.card)
    try:
        write(fixed, target)
    except FormatError as error:  # it was whole a moment ago
        raise ChakraError(f"{error}; it changed while it was being repaired") from None


@dataclass
class Fixer:
    """Repairs the pieces of one body and counts the repairs by (code, rank)."""

    rank: int
    dangling: U64
    circular: U64
    repairs: Counter[tuple[str, int]] = field(default_factory=Counter)

    def pieces(self, source: str | os.PathLike[str]) -> Iterator[Trace]:
        """The body's pieces, repaired."""
        return (self.fixed(piece) for piece in scan_trace(source))

    def repaired(self, source: str | os.PathLike[str]) -> Trace:
        """The body, repaired."""
        self.repairs.clear()  # a body may be read more than once
        return Trace.concat(self.pieces(source))

    def fixed(self, piece: Trace) -> Trace:
        """The same piece, repaired."""
        return self._moved(self._thinned(piece))

    def _note(self, code: str, count: int) -> None:
        if count:
            self.repairs[code, self.rank] += count

    # --- dependencies ---------------------------------------------------------------------------

    def _thinned(self, piece: Trace) -> Trace:
        deps = Dependencies.of(piece.table)
        codes, lags = edge_codes(piece.table, deps)
        dropped = self._useless(piece, deps)
        again = np.zeros(len(dropped), np.bool_)
        again[repeated(deps, codes, lags)] = True
        again &= ~dropped
        self._note("duplicate-dependency", int(again.sum()))
        keep = ~(dropped | again)
        return piece if keep.all() else _with_entries(piece, deps, keep, codes, lags)

    def _useless(self, piece: Trace, deps: Dependencies) -> Mask:
        """Control entries that can never be met."""
        on_itself = deps.ctrl & (piece.ids[deps.dst] == deps.ids)
        missing = deps.ctrl & ~on_itself & np.isin(deps.ids, self.dangling)
        against = ~on_itself & ~missing & self._closes_circle(piece.ids[deps.dst], deps)
        for code, mask in (
            ("self-control", on_itself),
            ("dangling-control", missing),
            ("control-cycle", against),
        ):
            self._note(code, int(mask.sum()))
        useless: Mask = on_itself | missing | against
        return useless

    def _closes_circle(self, targets: U64, deps: Dependencies) -> Mask:
        closes: Mask = (
            deps.ctrl & np.isin(deps.ids, self.circular[0]) & np.isin(targets, self.circular[1])
        )
        pairs = set(map(tuple, self.circular.T.tolist()))
        for i in np.flatnonzero(closes).tolist():
            closes[i] = (int(deps.ids[i]), int(targets[i])) in pairs
        return closes

    # --- attributes -----------------------------------------------------------------------------

    def _moved(self, piece: Trace) -> Trace:
        """Known attributes in the vocabulary's member, for the rows whose value fits it."""
        for (name, _member), numbers in misplaced(piece).items():
            rows = np.isin(piece.layout_rows, numbers) & _fits(piece, name)
            self._note("attribute-member", int(rows.sum()))
            piece = _with_member(piece, name, rows)
        return piece


def _with_entries(piece: Trace, deps: Dependencies, keep: Mask, codes: U8, lags: I64) -> Trace:
    """The piece with only these entries; kinds and lags follow where they were aligned."""
    order = np.lexsort((deps.slot, deps.dst))
    remaining = order[keep[order]]
    data, ctrl = remaining[~deps.ctrl[remaining]], remaining[deps.ctrl[remaining]]
    table, rows = piece.table, len(piece)
    changed: dict[str, pa.Array] = {
        "data_deps": _lists(pa.array(deps.ids[data]), deps.dst[data], rows),
        "ctrl_deps": _lists(pa.array(deps.ids[ctrl]), deps.dst[ctrl], rows),
    }
    # Rows whose kinds did not line up before stay as they are: what they meant is not known.
    for name, values in (("edge_kinds", codes), ("edge_lags_ns", lags)):
        if name in table.column_names:
            changed[name] = _aligned(piece, name, deps, remaining, values)
    for name, column in changed.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return Trace(table, piece.layouts, piece.metadata)


def _lists(values: pa.Array, dst: I32, rows: int) -> pa.Array:
    counts = np.bincount(dst, minlength=rows)
    return pa.ListArray.from_arrays(np.r_[0, np.cumsum(counts)].astype(np.int32), values)


def _aligned(
    piece: Trace, name: str, deps: Dependencies, remaining: I64, values: NDArray[np.generic]
) -> pa.Array:
    fits = edge_columns_that_fit(piece.table, deps, name)
    old = piece.table.column(name).to_pylist()
    bounds = np.searchsorted(deps.dst[remaining], np.arange(len(piece) + 1))
    ordered = values[remaining]
    for row in np.flatnonzero(fits).tolist():
        part = ordered[bounds[row] : bounds[row + 1]]
        old[row] = part.tobytes() if name == "edge_kinds" else part.tolist()
    return pa.array(old, piece.table.schema.field(name).type)


def _fits(piece: Trace, name: str) -> Mask:
    """Rows whose value the vocabulary's member can hold."""
    member = by_name()[name].member
    if member not in _RANGES:
        return piece.has(column_name(name))
    low, high = _RANGES[member]
    values = piece.column(column_name(name), 0)
    fits: Mask = (values >= low) & (values <= high)
    return fits


def _with_member(piece: Trace, name: str, rows: Mask) -> Trace:
    member = int(by_name()[name].member)
    old = piece.layout_rows
    layouts, new = piece.layouts, old.copy()
    for number in np.unique(old[rows]).tolist():
        entries = piece.layouts.items[number].entries
        moved = tuple((n, member if n == name else m) for n, m in entries)
        moved_layout = Layouts((Layout(piece.layouts.items[number].flags, moved),))
        layouts, renumbered = layouts.merge(moved_layout)
        new[rows & (old == number)] = renumbered[0]
    at = piece.table.column_names.index("_layout")
    return Trace(piece.table.set_column(at, "_layout", pa.array(new)), layouts, piece.metadata)
