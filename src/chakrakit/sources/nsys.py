"""Nsight Systems exports: each process of each export as the columns that are linked.

An export is an SQLite file (`nsys export --type sqlite`) or a folder of Parquet files named after the same
tables (`--type parquetdir`). Tables and columns that an export does not have read as empty. NVTX ranges give
PyTorch's operators, and NCCL's payloads what is communicated.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.operators import json_value
from chakrakit.sources.activities import Activities
from chakrakit.sources.pytorch.read import Kind, Kineto, whole
from chakrakit.sources.tables import SQLITE, ParquetTables, Tables, open_sqlite

_MARK, _STRINGS = "META_DATA_EXPORT", "StringIds"


def is_export(head: bytes) -> bool:
    """Whether a file's first bytes are those of an SQLite file, the form in which reports are exported."""
    return head.startswith(SQLITE)


def is_parquet_export(folder: Path) -> bool:
    """Whether a folder is what `nsys export --type parquetdir` writes: files with the names of its tables."""
    return (folder / f"{_STRINGS}.parquet").is_file() or any(folder.glob(f"{_ACTIVITY}*.parquet"))


@contextmanager
def open_tables(path: Path) -> Iterator[Tables]:
    """The tables of an export: an SQLite file, plain or gzipped, or a folder of Parquet files."""
    with nullcontext(ParquetTables(path)) if path.is_dir() else open_sqlite(path) as tables:
        if _MARK not in tables and _STRINGS not in tables:
            raise FormatError(
                "not an export of Nsight Systems: it has neither META_DATA_EXPORT nor StringIds",
                path=str(path),
            )
        yield tables


# NVTX ranges: PyTorch's operators among them, and NCCL's payloads.
_OPERATOR = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = ")
_SEQUENCE = re.compile(r", seq = (\d+)")
_NUMBER = re.compile(r", op_id = (\d+)")
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids|$)")

PUSH_POP, START_END = (59, 70), (60, 71)
"""Event types of ranges, of NVTX and of its text import."""


@dataclass(frozen=True)
class RangeLabel:
    """The parts of a range's text: PyTorch writes `aten::mm, seq = 5, op_id = 77, sizes = [[2, 3]]`."""

    name: str
    is_operator: bool
    sequence: int = -1
    number: int = -1
    sizes: str = ""


def parse_range_text(text: str) -> RangeLabel:
    """Read PyTorch's own form of a range's text; any other text is a name."""
    marker = _OPERATOR.search(text)
    if marker is None:
        return RangeLabel(text, False)
    sizes = _SIZES.search(text)
    return RangeLabel(
        text[: marker.start()],
        True,
        _int(_SEQUENCE.search(text)),
        _int(_NUMBER.search(text)),
        sizes[1] if sizes else "",
    )


def _int(match: re.Match[str] | None) -> int:
    number = whole(match[1]) if match else None
    return -1 if number is None else number


_FIELDS = {
    1: "c",
    2: "b",
    3: "h",
    4: "H",
    5: "i",
    6: "I",
    7: "q",
    8: "Q",
    13: "f",
    14: "d",
    18: "Q",
    19: "Q",
    22: "Q",
}
"""Payload entry types to their binary form; others are not decoded."""


@dataclass
class Payloads:
    """Layouts of binary payloads by (domain, schema), as far as every field has a known form."""

    layouts: dict[tuple[int, int], list[tuple[str, str, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables) -> Payloads:
        """The layouts an export lists."""
        columns = ("domainId", "schemaId", "idx", "type", "name", "offset")
        table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
        whole = partial(tables.whole, table=table, missing=0)
        by_schema: dict[tuple[int, int], dict[int, tuple[str, str, int]]] = {}
        for domain, schema, idx, kind, name, offset in tables.rows(table, columns):
            form = _FIELDS.get(whole(kind), "")
            place = whole(domain), whole(schema)
            by_schema.setdefault(place, {})[whole(idx)] = (str(name or ""), form, whole(offset))
        return cls({key: [fields[i] for i in sorted(fields)] for key, fields in by_schema.items()})

    def facts(self, domain: int, text: Any, binary: Any) -> dict[str, Any]:
        """A range's payload by the names of its fields, from its JSON or its bytes."""
        if isinstance(text, str) and text:
            return _from_json(text)
        if isinstance(binary, bytes) and len(binary) >= _HEAD.size:
            schema, _ = _HEAD.unpack_from(binary)
            layout = self.layouts.get((domain, schema & 0xFFFFFFFF), [])
            return _from_bytes(binary[_HEAD.size :], layout)
        return {}


_HEAD = struct.Struct("<QQ")


def _from_json(text: str) -> dict[str, Any]:
    payload = json_value(text)
    while isinstance(payload, list) and len(payload) == 1:
        payload = payload[0]
    return payload if isinstance(payload, dict) else {}


def _from_bytes(data: bytes, layout: list[tuple[str, str, int]]) -> dict[str, Any]:
    out = {}
    for name, form, offset in layout:
        if form and 0 <= offset <= len(data) - struct.calcsize("<" + form):
            out[name] = struct.unpack_from("<" + form, data, offset)[0]
    return out


def communication_facts(payload: Mapping[str, Any]) -> dict[str, str]:
    """NCCL's payload under the names that Kineto's records of communication use."""
    by_key = {str(k).lower(): v for k, v in payload.items()}
    out: dict[str, str] = {}
    for key, name in (
        ("nccl communicator id", "Process Group Name"),
        ("message size [bytes]", "Message bytes"),
        ("peer rank", "Peer"),
        ("root", "Root"),
        ("no. of ranks", "Group size"),
        ("rank", "Group rank"),
    ):
        if key in by_key:
            out[name] = str(by_key[key])
    return out


# Processes of an export as Kineto columns.
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_KERNEL, _MEMCPY, _MEMSET = _ACTIVITY + "KERNEL", _ACTIVITY + "MEMCPY", _ACTIVITY + "MEMSET"
_RUNTIME, _SYNC, _GRAPH = (
    _ACTIVITY + "RUNTIME",
    _ACTIVITY + "SYNCHRONIZATION",
    _ACTIVITY + "GRAPH_TRACE",
)
_EVENT = _ACTIVITY + "CUDA_EVENT"
_OVERHEADS = (_ACTIVITY + "OVERHEAD", "PROFILER_OVERHEAD")
_SUFFIX = re.compile(r"(_ptsz|_ptds)?(_v\d+)?$")
_COPIES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MEMORIES = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device",
    6: "Managed",
}
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_PROCESS = ~0xFFFFFF
"""Mask of the process in a `globalTid`, whose lower 24 bits are the thread."""
_NO_STREAM = 0xFFFFFFFF
"""CUPTI_SYNCHRONIZATION_INVALID_VALUE: a synchronization of no single stream."""


def read_processes(path: Path) -> list[Kineto]:
    """All events of each process of an export, by device and number.

    Times are ns since the session began, which the file gives in UTC.
    """
    with open_tables(path) as tables:
        strings = tables.texts(_STRINGS, "id", "value")
        readers = [_Reader(tables, number, strings) for number in _processes(tables)]
        for part in _PARTS:  # of all processes in turn, since they share the tables
            for reader in readers:
                part(reader)
        session = _session(tables)
        return [reader.activities.kineto(**session) for reader in readers]


def _processes(tables: Tables) -> list[int]:
    """The processes with GPU work, or calls into CUDA where there is none, by device and number.

    A number is as the export writes it: the upper bits of every thread's number.
    """
    device: dict[int, int] = {}
    for table in (_KERNEL, _GRAPH, _MEMCPY, _MEMSET):
        rows = tables.numbers(table, ("globalPid", "deviceId"))
        pairs, count = np.unique(
            np.stack([rows["globalPid"], rows["deviceId"]]), axis=1, return_counts=True
        )
        for i in np.argsort(-count, kind="stable").tolist():
            device.setdefault(int(pairs[0, i]), int(pairs[1, i]))
    if not device:
        threads = tables.numbers(_RUNTIME, ("globalTid",))["globalTid"]
        device = dict.fromkeys(np.unique(threads & _PROCESS).tolist(), -1)
    if not device:
        raise FormatError(
            "this export holds neither GPU activities nor CUDA calls; record with `nsys profile "
            "--trace=cuda,nvtx` and export again",
            path=tables.path,
        )
    return sorted(device, key=lambda number: (device[number], number))


def _session(tables: Tables) -> dict[str, Any]:
    """Clock, host and devices, which all processes of an export share."""
    return {
        "base_ns": _session_start(tables),
        "host_name": _host_name(tables),
        "distributed": {},
        "devices": _devices(tables),
    }


def _session_start(tables: Tables) -> int:
    table = "TARGET_INFO_SESSION_START_TIME"
    rows = tables.rows(table, ("utcEpochNs",))
    return tables.whole(rows[0][0], table, 0) if rows else 0


def _host_name(tables: Tables) -> str:
    rows = tables.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"))
    names = [str(value) for name, value in rows if name == "Hostname"]
    # Processes of one session share its clock, whether or not the host is named.
    return names[0] if names else f"session {_session_start(tables)}"


def _devices(tables: Tables) -> list[dict[str, Any]]:
    return [{"id": i, "name": str(n)} for i, n in tables.rows("TARGET_INFO_GPU", ("id", "name"))]


class _Reader:
    """Fills `activities` with one process' rows, table by table."""

    def __init__(self, tables: Tables, process: int, strings: Mapping[int, str]) -> None:
        self.tables, self.process, self.strings = tables, process, strings
        self.pid = (process >> 24) & 0xFFFFFF
        self.activities = Activities(tables.path)

    def _overheads(self) -> None:
        for table in _OVERHEADS:
            rows = self.tables.numbers(table, ("globalTid",))["globalTid"]
            self.activities.leave_out("overhead", int(((rows & _PROCESS) == self.process).sum()))

    def _mine(self, table: str, columns: Sequence[str]) -> dict[str, I64]:
        """A table's rows of this process; the table holds those of all processes."""
        by_thread = not self.tables.has(table, "globalPid")
        key = "globalTid" if by_thread else "globalPid"
        rows = self.tables.numbers(table, (*columns, key))
        mine = (rows[key] & _PROCESS) == self.process if by_thread else rows[key] == self.process
        return {c: rows[c][mine] for c in (*columns, key)}

    def _texts(self, ids: I64) -> list[str]:
        return [self.strings.get(i, "") for i in ids.tolist()]

    def _calls(self) -> None:
        rows = self._mine(_RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId"))
        names = [_SUFFIX.sub("", n) for n in self._texts(rows["nameId"])]
        self.activities.add(
            Kind.CALL,
            names,
            rows["start"],
            rows["end"],
            pid=self.pid,
            tid=rows["globalTid"] & 0xFFFFFF,
            correlation=rows["correlationId"],
        )

    def _kernels(self) -> None:
        shape = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        rows = self._mine(
            _KERNEL,
            (
                "start",
                "end",
                "deviceId",
                "streamId",
                "correlationId",
                "demangledName",
                "shortName",
                "graphNodeId",
                *shape,
            ),
        )
        ids = np.where(rows["demangledName"] >= 0, rows["demangledName"], rows["shortName"])
        self._add_device(
            Kind.KERNEL,
            self._texts(ids),
            rows,
            grid=_triples(rows, shape[:3]),
            block=_triples(rows, shape[3:]),
        )

    def _graphs(self) -> None:
        """Graphs as one activity each, where their kernels were not recorded."""
        rows = self._mine(
            _GRAPH,
            ("start", "end", "deviceId", "streamId", "correlationId", "graphId", "graphExecId"),
        )
        number = np.where(rows["graphExecId"] >= 0, rows["graphExecId"], rows["graphId"])
        self._add_device(Kind.KERNEL, [f"CUDA graph {n}" for n in number.tolist()], rows)

    def _copies(self) -> None:
        common = ("start", "end", "deviceId", "streamId", "correlationId", "bytes", "graphNodeId")
        rows = self._mine(_MEMCPY, (*common, "copyKind", "srcKind", "dstKind"))
        kinds = zip(*(rows[c].tolist() for c in ("copyKind", "srcKind", "dstKind")), strict=True)
        self._add_device(Kind.MEMCPY, [_copy_name(*k) for k in kinds], rows)
        rows = self._mine(_MEMSET, (*common, "memKind"))
        names = [f"Memset ({_MEMORIES.get(k, 'Unknown')})" for k in rows["memKind"].tolist()]
        self._add_device(Kind.MEMSET, names, rows)

    def _add_device(self, kind: Kind, names: list[str], rows: dict[str, I64], **more: Any) -> None:
        self.activities.add(
            kind,
            names,
            rows["start"],
            rows["end"],
            pid=rows["deviceId"],
            tid=rows["streamId"],
            device=rows["deviceId"],
            stream=rows["streamId"],
            correlation=rows["correlationId"],
            bytes=rows.get("bytes", -1),
            graph_node=rows.get("graphNodeId", -1),
            **more,
        )

    def _syncs(self) -> None:
        rows = self._mine(
            _SYNC,
            (
                "start",
                "end",
                "deviceId",
                "streamId",
                "correlationId",
                "syncType",
                "eventId",
                "eventSyncId",
            ),
        )
        names = [_SYNCS.get(t, "Synchronization") for t in rows["syncType"].tolist()]
        first = self.activities.add(
            Kind.SYNC,
            names,
            rows["start"],
            rows["end"],
            pid=self.pid,
            stream=np.where(rows["streamId"] == _NO_STREAM, -1, rows["streamId"]),
            device=rows["deviceId"],
            correlation=rows["correlationId"],
        )
        self._name_records(rows, first)

    def _name_records(self, rows: dict[str, I64], first: int) -> None:
        """Note for each wait which record of its event it waits for, where the export lists records."""
        records = self._mine(_EVENT, ("correlationId", "streamId", "eventId", "eventSyncId"))
        by_sync = {int(s): i for i, s in enumerate(records["eventSyncId"].tolist()) if s > 0}
        for i, sync in enumerate(rows["eventSyncId"].tolist()):
            at = by_sync.get(sync, -1)
            if at >= 0:
                number, stream = (int(records[c][at]) for c in ("correlationId", "streamId"))
                self.activities.say(first + i, "wait_on_cuda_event_record_corr_id", number)
                self.activities.say(first + i, "wait_on_stream", stream)

    def _ranges(self) -> None:
        columns = (
            "start",
            "end",
            "eventType",
            "globalTid",
            "endGlobalTid",
            "text",
            "textId",
            "domainId",
            "jsonText",
            "jsonTextId",
            "binaryData",
        )
        payloads = Payloads.of(self.tables)
        whole = partial(self.tables.whole, table="NVTX_EVENTS")
        ranges: list[tuple[int, int, int, str, dict[str, Any]]] = []
        for (
            start,
            end,
            kind,
            tid,
            end_tid,
            text,
            text_id,
            domain,
            json_inline,
            json_id,
            binary,
        ) in self.tables.rows("NVTX_EVENTS", columns):
            if tid is None or (whole(tid) & _PROCESS) != self.process:
                continue
            why = _no_range(kind, end, tid, end_tid)
            if why:
                self.activities.leave_out(why)
                continue
            name = str(text) if text is not None else self.strings.get(whole(text_id), "")
            json_text = json_inline if json_inline is not None else self.strings.get(whole(json_id))
            facts = payloads.facts(whole(domain or 0), json_text, binary)
            ranges.append((whole(start), whole(end), whole(tid) & 0xFFFFFF, name, facts))
        self._add_ranges(ranges)

    def _add_ranges(self, ranges: list[tuple[int, int, int, str, dict[str, Any]]]) -> None:
        labels = [parse_range_text(k[3]) for k in ranges]
        kinds = np.array(
            [Kind.OPERATOR if s.is_operator else Kind.ANNOTATION for s in labels], np.int8
        )
        first = self.activities.add(
            kinds,
            [s.name for s in labels],
            [k[0] for k in ranges],
            [k[1] for k in ranges],
            pid=self.pid,
            tid=[k[2] for k in ranges],
            sequence=[s.sequence for s in labels],
            in_dims=[s.sizes for s in labels],
        )
        for i, (*_, facts) in enumerate(ranges):
            for key, value in communication_facts(facts).items():
                self.activities.say(first + i, key, value)


_PARTS: tuple[Callable[[_Reader], None], ...] = (
    _Reader._ranges,
    _Reader._calls,
    _Reader._kernels,
    _Reader._graphs,
    _Reader._copies,
    _Reader._syncs,
    _Reader._overheads,
)
"""Host first, as its rows enclose the device's."""


def _no_range(kind: Any, end: Any, tid: Any, end_tid: Any) -> str:
    """Why an NVTX event is not a range of one thread; "" if it is one."""
    if kind not in (*PUSH_POP, *START_END):
        return "nvtx events without duration"
    if end is None:
        return "nvtx ranges still open"
    if kind in START_END and end_tid not in (None, tid):
        return "nvtx ranges across threads"
    return ""


def _copy_name(kind: int, source: int, target: int) -> str:
    """The name Kineto would give a copy."""
    ends = f"{_MEMORIES.get(source, 'Unknown')} -> {_MEMORIES.get(target, 'Unknown')}"
    return f"Memcpy {_COPIES.get(kind, 'Unknown')} ({ends})"


def _triples(rows: dict[str, I64], names: Sequence[str]) -> list[str]:
    columns = (rows[n].tolist() for n in names)
    return [f"[{x}, {y}, {z}]" if x >= 0 else "" for x, y, z in zip(*columns, strict=True)]
