"""Counters: a Run's tables of figures, checked against their schemas when made and when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import F64, I64
from chakrakit.errors import TraceError, nearest
from chakrakit.results import Result

# The counters there are: name, columns, types and units. docs/simulator.md lists them.


@dataclass(frozen=True)
class Column:
    """A column of a counter table; one with a `default` may be left out when a table is made."""

    name: str
    type: pa.DataType
    unit: str = ""
    default: object = None


@dataclass(frozen=True)
class CounterSchema:
    """A table of figures. A *series* has `rank`, `time_ns` and one `value` column, held until the next."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    value: str = ""
    """The column that a timeline draws; "" for a table that is not a series."""
    label: str = ""
    """The column that tells several series of one rank apart."""

    @property
    def unit(self) -> str:
        """The unit of what is drawn."""
        return next((c.unit for c in self.columns if c.name == self.value), "")


_RANK = Column("rank", pa.int64())
_TIME = Column("time_ns", pa.int64(), "ns")


def _series(name: str, meaning: str, value: Column, label: Column | None = None) -> CounterSchema:
    columns = (_RANK, _TIME, *((label,) if label else ()), value)
    return CounterSchema(name, meaning, columns, value.name, label.name if label else "")


SCHEMAS: dict[str, CounterSchema] = {
    schema.name: schema
    for schema in (
        _series(
            "memory",
            "bytes of device memory held from each moment on",
            Column("bytes", pa.int64(), "bytes"),
        ),
        _series(
            "power", "what a device draws from each moment on", Column("watts", pa.float64(), "W")
        ),
        _series(
            "kv_cache",
            "tokens whose keys and values an engine holds from each moment on",
            Column("tokens", pa.int64(), "tokens"),
        ),
        _series(
            "telemetry",
            "a signal of a node's monitoring from each moment on, against a healthy node's",
            Column("relative", pa.float64(), "× healthy"),
            Column("signal", pa.string()),
        ),
        _series(
            "batch",
            "requests that an engine works on from each moment on",
            Column("requests", pa.int64(), "requests"),
        ),
        _series(
            "queue_depth",
            "requests or launches that wait in a queue from each moment on",
            Column("depth", pa.int64(), "items"),
            Column("queue", pa.string(), "", ""),
        ),
        _series(
            "link_rate",
            "bytes per second over a rank's link from each moment on",
            Column("bytes_per_s", pa.float64(), "bytes/s"),
            Column("link", pa.string(), "", ""),
        ),
        CounterSchema(
            "links",
            "what went over each link in all; its lowest rate while full, since when; -1: never full",
            (
                Column("link", pa.string()),
                Column("rank", pa.int64(), "", -1),
                Column("src", pa.string(), "", ""),
                Column("dst", pa.string(), "", ""),
                Column("bytes", pa.float64(), "bytes"),
                Column("busy_ns", pa.float64(), "ns"),
                Column("messages", pa.int64(), "messages", -1),
                Column("bandwidth", pa.float64(), "bytes/s", 0.0),
                Column("utilization", pa.float64(), "share of the run", 0.0),
                Column("full_rate", pa.float64(), "bytes/s", -1.0),
                Column("full_since_ns", pa.float64(), "ns", 0.0),
            ),
        ),
        CounterSchema(
            "storage",
            "what each storage server did, and how long operations waited in its queue",
            (
                Column("store", pa.string()),
                Column("server", pa.int64()),
                Column("operations", pa.int64(), "operations"),
                Column("read_bytes", pa.float64(), "bytes"),
                Column("written_bytes", pa.float64(), "bytes"),
                Column("wait_ns", pa.float64(), "ns"),
                Column("longest_wait_ns", pa.float64(), "ns"),
                Column("busy_ns", pa.float64(), "ns"),
                Column("most_in_flight", pa.int64(), "operations"),
                Column("longest_queue", pa.int64(), "operations"),
            ),
        ),
        CounterSchema(
            "link_classes",
            "traffic of each class and weight on links",
            (
                Column("priority", pa.int64()),
                Column("weight", pa.int64()),
                Column("operations", pa.int64(), "operations"),
                Column("bytes", pa.float64(), "bytes"),
                Column("mean_ns", pa.float64(), "ns"),
            ),
        ),
        CounterSchema(
            "ports",
            "what messages cost at ports besides their bytes",
            (
                Column("messages", pa.int64(), "messages"),
                Column("port_ns", pa.float64(), "ns"),
                Column("busiest_ns", pa.float64(), "ns"),
                Column("busiest", pa.string()),
            ),
        ),
        CounterSchema(
            "group_setup",
            "what setting up groups took, all of them together",
            (Column("setup_ns", pa.float64(), "ns"),),
        ),
        CounterSchema(
            "tiers",
            "what the devices' memory and each store held at the most, and what went to and fro",
            (
                Column("tier", pa.string()),
                Column("peak_bytes", pa.int64(), "bytes"),
                Column("read_bytes", pa.float64(), "bytes"),
                Column("written_bytes", pa.float64(), "bytes"),
                Column("operations", pa.int64(), "operations"),
            ),
        ),
        CounterSchema(
            "collectives",
            "each collective: when its first and last member came, and when it ended",
            (
                Column("collective", pa.string()),
                Column("group", pa.string()),
                Column("seq", pa.int64()),
                Column("comm_size", pa.int64(), "bytes"),
                Column("algorithm", pa.string(), "", ""),
                Column("members", pa.int64(), "ranks", 0),
                Column("copies", pa.int64(), "groups alike", 1),
                Column("first_ns", pa.float64(), "ns", -1.0),
                Column("arrival_ns", pa.float64(), "ns"),
                Column("end_ns", pa.float64(), "ns"),
            ),
        ),
    )
}
"""Name → schema. Tables of other names are kept as they are, and not drawn."""


@dataclass(frozen=True, eq=False)
class CounterSeries:
    """A figure of one rank over time: a value from each moment on, in `unit`."""

    name: str
    unit: str
    time_ns: I64
    value: F64


class Counters(Mapping[str, pa.Table]):
    """Tables by name, immutable. Figures for a Run are checked by making one of these.

        Counters({"power": {"rank": [0, 0], "time_ns": [0, 500], "watts": [78.0, 640.0]}})

    `memory`, `power`, `kv_cache`, `telemetry`, `batch`, `queue_depth`, `link_rate`, `links`, `link_classes`,
    `ports`, `group_setup`, `storage`, `tiers` and `collectives` have a schema (SCHEMAS). Columns are
    brought to their types, what may be left out gets its default, and a column that is missing or
    does not exist is an error. `series` gives the figures over time of a rank, with units.
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

    def series(self, rank: int) -> list[CounterSeries]:
        """Everything over time that is known of a rank; with several labels, a series for each."""
        all_series: list[CounterSeries] = []
        for name, table in self._tables.items():
            schema = SCHEMAS.get(name)
            if schema is not None and schema.value:
                all_series += _labelled_series(
                    schema, table.filter(pc.equal(table.column("rank"), rank))
                )
        return all_series


def _checked(name: str, table: Any) -> pa.Table:
    schema = SCHEMAS.get(name)
    try:
        arrow_table = table if isinstance(table, pa.Table) else pa.table(table)
        return arrow_table if schema is None else _typed(schema, arrow_table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TraceError(f"counter {name!r}: {str(error).splitlines()[0]}") from None


def _typed(schema: CounterSchema, table: pa.Table) -> pa.Table:
    columns = {c.name: c for c in schema.columns}
    for column in table.column_names:
        if column not in columns:
            raise TraceError(
                f"counter {schema.name!r} has no {column!r}; {nearest(column, columns)}"
            )
    arrays = []
    for column in columns.values():
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
        for c in columns.values()
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _labelled_series(schema: CounterSchema, table: pa.Table) -> list[CounterSeries]:
    table = table.sort_by("time_ns")
    texts = table.column(schema.label).to_pylist() if schema.label else [""] * table.num_rows
    time, value = (table.column(c).to_numpy() for c in ("time_ns", schema.value))
    out = []
    for label in dict.fromkeys(texts):
        mine = np.array([t == label for t in texts], np.bool_)
        name = f"{schema.name.replace('_', ' ')} {label}".strip()
        out.append(CounterSeries(name, schema.unit, time[mine], value[mine].astype(np.float64)))
    return out


# The history of an allocator: a `memory` counter that was recorded, and not summed up from tensors.


_SETTING, _RECORDED = "memory", "allocator"


def as_recorded(settings: Mapping[str, Any], recorded: bool = True) -> dict[str, Any]:
    """The settings of a run's card, saying that its `memory` counter is an allocator's history, or not."""
    other_settings = {name: value for name, value in settings.items() if name != _SETTING}
    return {**other_settings, _SETTING: _RECORDED} if recorded else other_settings


def history_of(settings: Mapping[str, Any], counters: Mapping[str, pa.Table]) -> pa.Table | None:
    """A run's allocator history: bytes given out by rank, from each `time_ns` on; None without one."""
    return counters.get("memory") if settings.get(_SETTING) == _RECORDED else None


# What storage servers did in a run: the rows of its `storage` counter.


class ServerUse(Result, msgspec.Struct, kw_only=True, frozen=True):
    """One server of a store."""

    store: str
    server: int
    operations: int
    read_bytes: float
    written_bytes: float
    wait_ns: float
    """In the server's queue, all operations together."""
    longest_wait_ns: float
    busy_ns: float
    """While an operation was in flight."""
    most_in_flight: int
    longest_queue: int


def storage_table(servers: Sequence[ServerUse]) -> dict[str, Any]:
    """The counter's columns."""
    return {n: [getattr(s, n) for s in servers] for n in ServerUse.__struct_fields__}


def servers_of(counters: Mapping[str, pa.Table]) -> list[ServerUse]:
    """The storage servers in a run's counters; [] without storage."""
    if "storage" not in counters:
        return []
    return [ServerUse(**row) for row in counters["storage"].to_pylist()]
