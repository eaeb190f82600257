"""A Kineto trace written as rocprofv3 would have written it: a rocpd database, a Perfetto trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.trace.model.wire import field_bytes, varint
from support.rocpd_schema import lay_out

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
_NODE = 2_269_219_937
"""A node's id is the hash of its machine's id."""
_NUMBER = "_0198a7b6_0f2e_7cc1_9f3a_5be1d0c3a977"
"""What stands behind the names of tables: a UUID of the recording."""


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
    """A database as rocprofv3 fills it: of schema 3, or of 4 with times and places in tables of their own.

    Processes, threads and agents go by the numbers that the system gives them; ids of streams and queues
    begin with 0, the default one.
    """

    def __init__(self, path: Path, schema: int = 3, number: str = _NUMBER) -> None:
        self._to, self._schema, self._number = sqlite3.connect(path), schema, number
        self._to.execute("pragma synchronous = off")  # nobody pulls the plug on a test
        self._place: dict[str, object] = {}
        self._code = self._dispatched = 0
        self._there: dict[tuple[object, ...], int] = {}
        lay_out(self._to, schema, number)
        self._add("info_node", id=_NODE, hash=_NODE, machine_id="box", hostname="box")

    def _add(self, table: str, **values: object) -> int:
        named = {"id": values.pop("id")} if values.get("id") is not None else {}
        named |= {name: value for name, value in values.items() if value is not None}
        columns, marks = ", ".join(f'"{n}"' for n in named), ",".join("?" * len(named))
        sql = f"insert into rocpd_{table}{self._number} ({columns}) values ({marks})"
        return int(self._to.execute(sql, tuple(named.values())).lastrowid or 0)

    def _once(self, table: str, **values: object) -> int:
        if (key := (table, *values.items())) not in self._there:
            self._there[key] = self._add(table, **values)
        return self._there[key]

    def _string(self, text: str) -> int:
        return self._once("string", string=text)

    def write(self, trace: Kineto, pid: int = 77) -> None:
        """One process."""
        self._place = {"nid": _NODE, "pid": pid}
        self._add("info_process", id=pid, nid=_NODE, ppid=1, pid=pid, command="python train.py")
        for number, kind, name in ((_CPU, "CPU", "EPYC"), (_GPU, "GPU", "gfx942")):
            self._add(
                "info_agent", id=number, **self._place, type=kind, absolute_index=number,
                logical_index=number, type_index=0, name=name,
                product_name="MI300X" if kind == "GPU" else name,
            )  # fmt: skip
        for table in ("stream", "queue"):
            self._once(f"info_{table}", id=0, **self._place)
        self._code = self._add("info_code_object", **self._place, agent_id=_GPU, uri="memory://77")
        self._string("")
        for event in events_of(trace):
            self._event(event)

    def _event(self, event: Event) -> None:
        category = _CATEGORIES[event.kind][0]
        is_range = event.kind == Kind.ANNOTATION
        kind = (
            self._once("info_category", name=category)
            if self._schema == 4
            else self._string(category)
        )
        number = self._add(
            "event",
            category_id=kind,
            stack_id=event.correlation,
            parent_stack_id=event.correlation,
            correlation_id=0,
            extdata=f'{{"message":"{event.name}"}}' if is_range else None,
        )
        on_device = event.kind in (Kind.KERNEL, Kind.MEMCPY)
        thread = self._once("info_thread", id=event.tid, **self._place, tid=event.tid)
        where: dict[str, object] = {**self._place, "tid": thread}
        if on_device:
            where["stream_id"] = self._once("info_stream", id=event.stream, **self._place)
        if event.kind == Kind.KERNEL:
            queue = self._once("info_queue", id=2, **self._place)
            where |= {"agent_id": _GPU, "queue_id": queue}
        times: dict[str, object] = {"start": event.start, "end": event.end}
        if self._schema == 4:
            where = {"track_id": self._once("track", **where)}
            times = {
                f"{side}_id": self._add("timestamp", value=value, phase=phase, **where)
                for phase, (side, value) in enumerate(times.items(), 1)
            }
        self._row(event, {**where, **times, "event_id": number})

    def _row(self, event: Event, facts: dict[str, object]) -> None:
        if event.kind == Kind.KERNEL:
            symbol = self._once(
                "info_kernel_symbol",
                **self._place,
                code_object_id=self._code,
                kernel_name=event.name,
                display_name=event.name,
            )
            for axis, blocks, per in zip("xyz", event.grid, event.block, strict=True):
                facts |= {f"grid_size_{axis}": blocks * per, f"workgroup_size_{axis}": per}
            self._dispatched += 1
            none = self._string("")
            self._add(
                "kernel_dispatch",
                kernel_id=symbol,
                dispatch_id=self._dispatched,
                region_name_id=none,
                **facts,
            )
        elif event.kind == Kind.MEMCPY:
            to, source = (_CPU, _GPU) if event.name.endswith("HOST") else (_GPU, _CPU)
            ends = {"dst_agent_id": to, "src_agent_id": source, "size": event.bytes}
            self._add("memory_copy", name_id=self._string(event.name), **ends, **facts)
        else:
            is_range = event.kind == Kind.ANNOTATION
            name = self._string("roctxThreadRangeA" if is_range else event.name)
            self._add("region", name_id=name, **facts)

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
