"""Nsight Systems exports: each process of each file as the columns that are linked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.sources.activities import Activities
from chakrakit.sources.nsys.ranges import PUSH_POP, START_END, Payloads, communication_facts, named
from chakrakit.sources.nsys.tables import Tables, open_tables
from chakrakit.sources.pytorch.read import Kind, Kineto

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
_NO_STREAM = 0xFFFFFFFF


def read_processes(path: Path) -> list[Kineto]:
    """All events of each process of an export, by device and number.

    Times are ns since the session began, which the file gives in UTC.
    """
    with open_tables(path) as tables:
        readers = [_Reader(tables, number) for number in _processes(tables)]
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
    """What all processes of an export share."""
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
    rows = tables.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"), "where name = 'Hostname'")
    # Processes of one session share its clock, whether or not the host is named.
    return str(rows[0][1]) if rows else f"session {_session_start(tables)}"


def _devices(tables: Tables) -> list[dict[str, Any]]:
    return [{"id": i, "name": str(n)} for i, n in tables.rows("TARGET_INFO_GPU", ("id", "name"))]


class _Reader:
    """Fills `activities` with one process' rows, table by table."""

    def __init__(self, tables: Tables, process: int) -> None:
        self.tables, self.process = tables, process
        self.pid = (process >> 24) & 0xFFFFFF
        self.activities = Activities(tables.path)
        self.strings = tables.strings

    def _overheads(self) -> None:
        for table in _OVERHEADS:
            rows = self.tables.numbers(table, ("globalTid",))["globalTid"]
            self.activities.leave_out("overhead", int(((rows & _PROCESS) == self.process).sum()))

    def _mine(self, table: str, columns: Sequence[str]) -> dict[str, I64]:
        """A table's rows of this process; whole tables hold those of all."""
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
        """Whole graphs, where the recording did not look inside them."""
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
        """Which record of its event each wait waits for, where the export lists records."""
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
        kept: list[tuple[int, int, int, str, dict[str, Any]]] = []
        for (
            start,
            end,
            kind,
            tid,
            end_tid,
            text,
            text_id,
            domain,
            said,
            said_id,
            binary,
        ) in self.tables.rows("NVTX_EVENTS", columns):
            if tid is None or (whole(tid) & _PROCESS) != self.process:
                continue
            why = _no_range(kind, end, tid, end_tid)
            if why:
                self.activities.leave_out(why)
                continue
            name = str(text) if text is not None else self.strings.get(whole(text_id), "")
            json_text = said if said is not None else self.strings.get(whole(said_id))
            facts = payloads.facts(whole(domain or 0), json_text, binary)
            kept.append((whole(start), whole(end), whole(tid) & 0xFFFFFF, name, facts))
        self._add_ranges(kept)

    def _add_ranges(self, kept: list[tuple[int, int, int, str, dict[str, Any]]]) -> None:
        said = [named(k[3]) for k in kept]
        kinds = np.array(
            [Kind.OPERATOR if s.is_operator else Kind.ANNOTATION for s in said], np.int8
        )
        first = self.activities.add(
            kinds,
            [s.name for s in said],
            [k[0] for k in kept],
            [k[1] for k in kept],
            pid=self.pid,
            tid=[k[2] for k in kept],
            sequence=[s.sequence for s in said],
            in_dims=[s.sizes for s in said],
        )
        for i, (*_, facts) in enumerate(kept):
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
    """Why an NVTX event is no range of one thread; empty for one that is."""
    if kind not in (*PUSH_POP, *START_END):
        return "nvtx events without duration"
    if end is None:
        return "nvtx ranges still open"
    if kind in START_END and end_tid not in (None, tid):
        return "nvtx ranges across threads"
    return ""


def _copy_name(kind: int, source: int, target: int) -> str:
    """As Kineto writes it."""
    ends = f"{_MEMORIES.get(source, 'Unknown')} -> {_MEMORIES.get(target, 'Unknown')}"
    return f"Memcpy {_COPIES.get(kind, 'Unknown')} ({ends})"


def _triples(rows: dict[str, I64], names: Sequence[str]) -> list[str]:
    columns = (rows[n].tolist() for n in names)
    return [f"[{x}, {y}, {z}]" if x >= 0 else "" for x, y, z in zip(*columns, strict=True)]
