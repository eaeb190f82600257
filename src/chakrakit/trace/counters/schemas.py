"""The counters there are: name, columns, types and units. docs/simulator.md lists them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """A column of a counter table; one with a `default` may be left out by whoever writes it."""

    name: str
    type: pa.DataType
    unit: str = ""
    default: object = None


@dataclass(frozen=True)
class CounterSchema:
    """A table of figures. A *series* has `rank`, `time_ns` and one `value` column, held until the next."""

    name: str
    what: str
    columns: tuple[Column, ...]
    value: str = ""
    """The column that a timeline draws; "" for a table that is no series."""
    label: str = ""
    """The column that tells several series of one rank apart."""

    @property
    def unit(self) -> str:
        """The unit of what is drawn."""
        return next((c.unit for c in self.columns if c.name == self.value), "")


_RANK = Column("rank", pa.int64())
_TIME = Column("time_ns", pa.int64(), "ns")


def _series(name: str, what: str, value: Column, label: Column | None = None) -> CounterSchema:
    columns = (_RANK, _TIME, *((label,) if label else ()), value)
    return CounterSchema(name, what, columns, value.name, label.name if label else "")


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
"""Name → schema. Tables of other names are kept as they are, and nobody draws them."""
