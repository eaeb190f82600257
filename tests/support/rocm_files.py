"""A Kineto trace written as rocprofv3 would have written it: a rocpd database, a Perfetto trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.trace.model.wire import field_bytes, varint

_CATEGORIES = {
    Kind.CALL: ("HIP_RUNTIME_API_EXT", "hip_api"),
    Kind.ANNOTATION: ("MARKER_CORE_RANGE_API", "marker_api"),
    Kind.KERNEL: ("KERNEL_DISPATCH", "kernel_dispatch"),
    Kind.MEMCPY: ("MEMORY_COPY", "memory_copy"),
}
"""The kind of an event in a database and in a Perfetto trace; operators and fills have none."""
_COPIES = {
    "HtoD": "MEMORY_COPY_HOST_TO_DEVICE",
    "DtoH": "MEMORY_COPY_DEVICE_TO_HOST",
    "DtoD": "MEMORY_COPY_DEVICE_TO_DEVICE",
}
_GPU, _CPU = 4, 0
"""Numbers of agents: the first GPU comes after the CPUs of a node."""


class Event(NamedTuple):
    """One event that ROCm's tools would have recorded too."""

    kind: Kind
    name: str
    start: int
    end: int
    tid: int
    stream: int
    correlation: int
    bytes: int
    grid: tuple[int, ...]
    block: tuple[int, ...]


def events_of(trace: Kineto) -> Iterator[Event]:
    """Calls, annotations, kernels and copies, in the order of the file."""
    for e in range(len(trace)):
        kind = Kind(int(trace.kind[e]))
        if kind in _CATEGORIES:
            name = trace.texts[int(trace.name[e])]
            copied = name.split()[1] if kind == Kind.MEMCPY else ""
            yield Event(
                kind,
                _COPIES.get(copied, name),
                trace.base_ns + int(trace.start[e]),
                trace.base_ns + int(trace.end[e]),
                int(trace.tid[e]) % 2**31,
                int(trace.stream[e]),
                int(trace.correlation[e]),
                int(trace.bytes[e]),
                _size(trace, "grid", e),
                _size(trace, "block", e),
            )


def _size(trace: Kineto, column: str, event: int) -> tuple[int, ...]:
    text = trace.texts[int(trace.text_columns[column][event])]
    return tuple(int(n) for n in text.strip("[]").split(",")) if text else (1, 1, 1)


class RocpdFile:
    """A database of schema 3, or of 4 with times and places in tables of their own."""

    def __init__(self, path: Path, schema: int = 3, number: str = "_0198a7b6") -> None:
        self._to, self._schema, self._number = sqlite3.connect(path), schema, number
        self._to.execute("pragma synchronous = off")  # nobody pulls the plug on a test
        self._strings: dict[str, int] = {}
        places = "track_id" if schema == 4 else "nid, pid, tid"
        on = "" if schema == 4 else ", agent_id, queue_id, stream_id"
        lane = "" if schema == 4 else ", queue_id, stream_id"
        times = "start_id, end_id" if schema == 4 else "start, end"
        sizes = ", ".join(f"{part}_size_{axis}" for part in ("grid", "workgroup") for axis in "xyz")
        for table, columns in {
            "metadata": "tag, value",
            "string": "string",
            "info_node": "hostname",
            "info_process": "nid, pid",
            "info_thread": "nid, pid, tid",
            "info_agent": "nid, pid, type, absolute_index, name, product_name",
            "info_category": "name",
            "info_kernel_symbol": "kernel_name, display_name",
            "event": "category_id, stack_id, parent_stack_id, correlation_id, extdata",
            "timestamp": "value",
            "track": "nid, pid, tid, agent_id, queue_id, stream_id",
            "region": f"{places}, {times}, name_id, event_id",
            "kernel_dispatch": f"{places}{on}, {times}, kernel_id, {sizes}, event_id",
            "memory_copy": f"{places}{lane}, {times}, name_id, dst_agent_id, src_agent_id, size, event_id",
            "memory_allocate": f"{places}, {times}, size",
        }.items():
            self._to.execute(
                f"create table rocpd_{table}{number} (id integer primary key, {columns})"
            )
            # Tools ask views without the number, which is not where the rows are.
            view = f"create view if not exists rocpd_{table} as select * from rocpd_{table}{number}"
            self._to.execute(view)
        self._add("info_node", "box")
        self._add("info_agent", 1, 1, "CPU", _CPU, "EPYC", "EPYC", id=_CPU)
        self._add("info_agent", 1, 1, "GPU", _GPU, "gfx942", "MI300X", id=_GPU)

    def _add(self, table: str, *values: object, id: int | None = None) -> int:
        marks = ",".join("?" * (len(values) + 1))
        sql = f"insert into rocpd_{table}{self._number} values ({marks})"
        return int(self._to.execute(sql, (id, *values)).lastrowid or 0)

    def _string(self, text: str, table: str = "string") -> int:
        if (key := f"{table} {text}") not in self._strings:
            same = (text, text) if table == "info_kernel_symbol" else (text,)
            self._strings[key] = self._add(table, *same)
        return self._strings[key]

    def write(self, trace: Kineto, pid: int = 77) -> None:
        """One process."""
        process = self._add("info_process", 1, pid)
        for event in events_of(trace):
            self._event(event, process)

    def _event(self, event: Event, process: int) -> None:
        category = _CATEGORIES[event.kind][0]
        is_range = event.kind == Kind.ANNOTATION
        message = f'{{"message":"{event.name}"}}' if is_range else "{}"
        kind = self._string(category, "info_category" if self._schema == 4 else "string")
        number = self._add("event", kind, event.correlation, 0, 0, message)
        on_device = event.kind in (Kind.KERNEL, Kind.MEMCPY)
        lane = (2, event.stream) if on_device else ()
        thread = self._add("info_thread", 1, process, event.tid)
        agent = (_GPU,) if event.kind == Kind.KERNEL else ()
        if self._schema == 4:
            full = (*(agent or (None,)), *(lane or (None, None)))
            where: tuple[object, ...] = (self._add("track", 1, process, thread, *full),)
            times = tuple(self._add("timestamp", t) for t in (event.start, event.end))
        else:
            where, times = (1, process, thread, *agent, *lane), (event.start, event.end)
        if event.kind == Kind.KERNEL:
            symbol = self._string(event.name, "info_kernel_symbol")
            items = [n * per for n, per in zip(event.grid, event.block, strict=True)]
            self._add("kernel_dispatch", *where, *times, symbol, *items, *event.block, number)
        elif event.kind == Kind.MEMCPY:
            ends = (_CPU, _GPU) if event.name.endswith("HOST") else (_GPU, _CPU)
            name = self._string(event.name)
            self._add("memory_copy", *where, *times, name, *ends, event.bytes, number)
        else:
            name = self._string("roctxThreadRangeA" if is_range else event.name)
            self._add("region", *where, *times, name, number)

    def close(self) -> None:
        self._to.commit()
        self._to.close()


def perfetto_trace(trace: Kineto) -> bytes:
    """A Perfetto trace with interned texts, tracks of streams, and times of packets that count on."""
    writer = _PerfettoWriter()
    return b"".join(writer.packets(trace))


class _PerfettoWriter:
    def __init__(self) -> None:
        self._texts: dict[tuple[int, str], int] = {}
        self._new = b""

    def packets(self, trace: Kineto) -> Iterator[bytes]:
        events = list(events_of(trace))
        yield _packet(_number(13, 1) + field_bytes(60, _number(1, 7) + field_bytes(2, b"main")))
        for stream in sorted({e.stream for e in events if e.stream >= 0}):
            name = f'STREAM [" {stream} "] '.encode()
            yield _packet(field_bytes(60, _number(1, 1000 + stream) + field_bytes(2, name)))
        for event in events:
            yield self._begin(event)
            yield _packet(_number(8, 5) + field_bytes(11, _number(9, 2)))

    def _begin(self, event: Event) -> bytes:
        on_device = event.kind in (Kind.KERNEL, Kind.MEMCPY)
        facts: dict[str, int | str] = {
            "begin_ns": event.start, "end_ns": event.end, "corr_id": event.correlation,
            "tid": event.tid,
        }  # fmt: skip
        if event.kind == Kind.KERNEL:
            facts |= {"agent": "GPU-0", "queue": 2}
        elif event.kind == Kind.MEMCPY:
            facts |= {"src_agent": "CPU-0", "dst_agent": "GPU-0", "copy_bytes": event.bytes}
        body = _number(9, 1) + _number(11, 1000 + event.stream if on_device else 7)
        body += _number(3, self._interned(1, _CATEGORIES[event.kind][1]))
        body += _number(10, self._interned(2, event.name))
        for key, value in facts.items():
            said = field_bytes(6, value.encode()) if isinstance(value, str) else _number(3, value)
            body += field_bytes(4, _number(1, self._interned(3, key)) + said)
        interned, self._new = self._new, b""
        return _packet(_number(8, 5) + field_bytes(12, interned) + field_bytes(11, body))

    def _interned(self, kind: int, text: str) -> int:
        if (kind, text) not in self._texts:
            number = self._texts[kind, text] = len(self._texts) + 1
            self._new += field_bytes(kind, _number(1, number) + field_bytes(2, text.encode()))
        return self._texts[kind, text]


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value % 2**64)


def _packet(content: bytes) -> bytes:
    return field_bytes(1, _number(10, 3) + content)
