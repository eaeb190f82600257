"""Results kept beside the tests: whatever a change moves shows as a difference of figures in a file.

Where a result is meant to change, `CHAKRA_KEEP_RESULTS=1 pytest -k kept` writes the files anew, and their
difference says what moved.
"""

from __future__ import annotations

import json
import os
import zlib
from math import isclose
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet
from support.paths import DATA, ROOT

FOLDER = DATA / "results"
LONGEST = 12
"""Longer lists are kept as their length and a checksum: the files stay readable."""
DIGITS = 9
"""Significant digits of a real number: beyond them, compilers may sum in another order."""
ROUNDING = 1e-13
"""Real numbers below this are 0: what is left of a difference of equal numbers is each processor's own."""
CLOSE = 1e-5
"""Relative difference up to which two real numbers are one: processors sum float32 in other orders."""


def compare(name: str, figures: dict[str, Any]) -> None:
    """The figures equal those kept under a name."""
    file = FOLDER / f"{name}.json"
    condensed_figures = json.loads(json.dumps({k: condensed(v) for k, v in figures.items()}))
    if os.environ.get("CHAKRA_KEEP_RESULTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(condensed_figures, indent=1, sort_keys=True) + "\n")
    kept = json.loads(file.read_text())
    moved = {k: v for k, v in condensed_figures.items() if not agree(kept.get(k), v)}
    assert moved == {k: kept.get(k) for k in moved}
    assert condensed_figures.keys() == kept.keys()


def agree(kept: Any, value: Any) -> bool:
    """Whether two condensed values are the same, real numbers up to what processors round differently."""
    if isinstance(kept, dict) and isinstance(value, dict):
        return kept.keys() == value.keys() and all(agree(kept[k], value[k]) for k in kept)
    if isinstance(kept, list) and isinstance(value, list):
        return len(kept) == len(value) and all(map(agree, kept, value))
    if isinstance(kept, float) and isinstance(value, float):
        return isclose(kept, value, rel_tol=CLOSE)
    return bool(kept == value)


def condensed(value: Any) -> Any:
    """The same with numbers rounded, long lists and texts as checksums, and without the checkout's path."""
    if isinstance(value, dict):
        return {str(k): condensed(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [condensed(v) for v in value]
        return (
            items if len(items) <= LONGEST else f"{len(items)} items, {checksum(json.dumps(items))}"
        )
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if abs(value) >= ROUNDING else 0.0
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, str):
        text = value.replace(str(ROOT), "")
        return text if len(text) <= 200 else f"{len(text)} letters, {checksum(text)}"
    return value


def checksums(figures: dict[str, Any]) -> dict[str, str]:
    """Of each figure a checksum, for results that are many: what moved is seen, by how much is not."""
    return {k: checksum(json.dumps(condensed(v), sort_keys=True)) for k, v in figures.items()}


def checksum(text: str) -> str:
    """A short checksum of a text."""
    return f"{zlib.crc32(text.encode()):08x}"


def of_trace(trace: Trace) -> dict[str, str]:
    """A trace: for every column how many values it has and their checksum, and the same of its edges."""
    columns = {name: _column(trace.table[name]) for name in sorted(trace.table.column_names)}
    edges = trace.edges
    arrays = (edges.src, edges.dst, edges.kind, edges.form, edges.lag)
    columns["edges"] = _text([np.asarray(a).tolist() for a in arrays])
    columns["parents"] = _text([trace.parent.tolist(), trace.step.tolist()])
    return columns


def of_set(traces: TraceSet) -> dict[str, Any]:
    """A set of traces: its bodies, groups and which rank has which."""
    bodies = {f"body {k}": of_trace(traces.body_at(k)) for k in range(traces.body_count)}
    groups = {name: list(traces.groups[name]) for name in sorted(traces.groups)}
    return {**bodies, "groups": groups, "ranks": [traces.bindings[r].body for r in traces.ranks]}


def _column(column: pa.ChunkedArray) -> str:
    return _text(column.to_pylist())


def _text(values: list[Any]) -> str:
    present = sum(v is not None for v in values)
    return f"{present} values, {checksum(json.dumps(condensed_list(values), default=repr))}"


def condensed_list(values: list[Any]) -> list[Any]:
    """Values with their numbers rounded."""
    return [float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for v in values]
