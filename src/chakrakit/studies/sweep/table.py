"""The tidy table of a study: one row per point, its parameters first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.studies.sweep.measurement import Row
from chakrakit.studies.sweep.points import Point
from chakrakit.studies.sweep.served import Served, ServedRow
from chakrakit.studies.sweep.store import Finished
from chakrakit.trace.files import replacing

_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
    float | None: pa.float64(),
}


def table_of(points: Sequence[Point], finished: Mapping[str, Finished]) -> pa.Table:
    """Parameters, status, error and figures of every finished point, in the study's order."""
    shown = [p for p in points if p.key in finished]
    names = list(dict.fromkeys(n for p in points for n in p.parameters))
    columns: dict[str, pa.Array] = {n: _column([p.parameters.get(n) for p in shown]) for n in names}
    found = [finished[p.key] for p in shown]
    columns["status"] = pa.array(["done" if f.figures else "failed" for f in found], pa.string())
    columns["error"] = pa.array([f.error for f in found], pa.string())
    row = ServedRow if isinstance(points[0].workload, Served) else Row
    for name, kind in get_type_hints(row).items():
        values = [getattr(f.figures, name) if f.figures else None for f in found]
        columns[name] = pa.array(values, _TYPES[kind])
    columns["key"] = pa.array([p.key for p in shown], pa.string())
    return pa.table(columns)


def _column(values: list[Any]) -> pa.Array:
    """Numbers as numbers; where an axis mixes kinds, or has lists and mappings, their JSON."""
    try:
        found = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        found = None
    if found is not None and not pa.types.is_nested(found.type):
        return found
    texts = [
        v if v is None or isinstance(v, str) else msgspec.json.encode(v).decode() for v in values
    ]
    return pa.array(texts, pa.string())


def write_table(table: pa.Table, path: Path) -> None:
    """Writes Parquet under a temporary name, then moves it into place."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
