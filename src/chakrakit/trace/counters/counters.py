"""Counters: the tables of figures of a Run, checked against their schemas when made and when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import F64, I64
from chakrakit.errors import TraceError, nearest
from chakrakit.trace.counters.schemas import SCHEMAS, CounterSchema


@dataclass(frozen=True, eq=False)
class Series:
    """A figure of one rank over time: a value from each moment on, in `unit`."""

    name: str
    unit: str
    time_ns: I64
    value: F64


class Counters(Mapping[str, pa.Table]):
    """Tables by name, immutable. Whoever makes figures for a Run writes them through this class.

        Counters({"power": {"rank": [0, 0], "time_ns": [0, 500], "watts": [78.0, 640.0]}})

    `memory`, `power`, `kv_cache`, `batch`, `queue_depth`, `link_rate`, `links`, `storage` and `collectives`
    have a schema (SCHEMAS): columns are brought to their types, what may be left out gets its default, and a
    column that is missing or does not exist is an error. `series` gives the figures over time of a rank,
    with units.
    """

    def __init__(self, tables: Mapping[str, Any] | None = None) -> None:
        self._tables = {name: _checked(name, table) for name, table in (tables or {}).items()}

    def __getitem__(self, name: str) -> pa.Table:
        try:
            return self._tables[name]
        except KeyError:
            raise KeyError(f"no counter {name!r}; {nearest(name, self._tables)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def series(self, rank: int) -> list[Series]:
        """Everything over time that is known of a rank; with several labels, a series for each."""
        found: list[Series] = []
        for name, table in self._tables.items():
            schema = SCHEMAS.get(name)
            if schema is not None and schema.value:
                found += _series(schema, table.filter(pc.equal(table.column("rank"), rank)))
        return found


def _checked(name: str, table: Any) -> pa.Table:
    schema = SCHEMAS.get(name)
    try:
        made = table if isinstance(table, pa.Table) else pa.table(table)
        return made if schema is None else _typed(schema, made)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TraceError(f"counter {name!r}: {str(error).splitlines()[0]}") from None


def _typed(schema: CounterSchema, table: pa.Table) -> pa.Table:
    known = {c.name: c for c in schema.columns}
    for column in table.column_names:
        if column not in known:
            raise TraceError(f"counter {schema.name!r} has no {column!r}; {nearest(column, known)}")
    arrays = []
    for column in known.values():
        if column.name in table.column_names:
            array = table.column(column.name).cast(column.type)
        elif column.default is not None:
            array = pa.repeat(pa.scalar(column.default, column.type), table.num_rows)
        else:
            raise TraceError(f"counter {schema.name!r} needs {column.name!r}")
        if array.null_count:
            raise TraceError(f"counter {schema.name!r} has nulls in {column.name!r}")
        arrays.append(array)
    fields = [
        pa.field(c.name, c.type, False, {"unit": c.unit} if c.unit else None)
        for c in known.values()
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _series(schema: CounterSchema, table: pa.Table) -> list[Series]:
    table = table.sort_by("time_ns")
    texts = table.column(schema.label).to_pylist() if schema.label else [""] * table.num_rows
    time, value = (table.column(c).to_numpy() for c in ("time_ns", schema.value))
    out = []
    for label in dict.fromkeys(texts):
        mine = np.array([t == label for t in texts], np.bool_)
        name = f"{schema.name.replace('_', ' ')} {label}".strip()
        out.append(Series(name, schema.unit, time[mine], value[mine].astype(np.float64)))
    return out
