"""A Kineto trace written as Nsight Systems would have exported the same events."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.sources.pytorch.read import Kind, Kineto

_COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
_MEMORIES = {"Pageable": 0, "Pinned": 1, "Device": 2, "Unknown": 7}
_SYNCS = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}


class NsysFile:
    """Tables with the columns of schema 3.25 that a reader uses; the oldest exports have fewer."""

    def __init__(self, path: Path, old: bool = False) -> None:
        self._to = sqlite3.connect(path)
        self._to.execute("pragma synchronous = off")  # nobody pulls the plug on a test
        self._strings: dict[str, int] = {}
        self._old = old
        graph = "" if old else ", graphNodeId"
        copied = "" if old else ", virtualAddress, copyCount"
        self._copied = () if old else (None, 1)
        self._graph = () if old else (None,)
        device = "start, end, deviceId, contextId, streamId, correlationId, globalPid"
        for table, columns in {
            "META_DATA_EXPORT": "name, value",
            "StringIds": "id, value",
            "TARGET_INFO_SESSION_START_TIME": "utcEpochNs, systemClockNs",
            "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId, returnValue",
            "CUPTI_ACTIVITY_KIND_KERNEL": f"{device}, demangledName, shortName, gridX, gridY, gridZ, "
            f"blockX, blockY, blockZ{graph}",
            "CUPTI_ACTIVITY_KIND_MEMCPY": f"{device}, bytes, copyKind, srcKind, dstKind{graph}{copied}",
            "CUPTI_ACTIVITY_KIND_MEMSET": f"{device}, bytes, value, memKind{graph}",
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{device}, syncType, eventId, eventSyncId",
            "NVTX_EVENTS": "start, end, eventType, text, textId, globalTid, domainId",
        }.items():
            self._to.execute(f"create table {table} ({columns})")
        self._add("META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", "3.25.0")

    def _add(self, table: str, *values: object) -> None:
        self._to.execute(f"insert into {table} values ({','.join('?' * len(values))})", values)

    def _string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self._add("StringIds", self._strings[text], text)
        return self._strings[text]

    def begin(self, utc_ns: int) -> None:
        """When the session began."""
        self._add("TARGET_INFO_SESSION_START_TIME", utc_ns, 0)

    def write(self, trace: Kineto, pid: int, base: int) -> None:
        """One process; times are counted from `base` on the trace's own clock."""
        process = (1 << 48) | (pid << 24)
        for e in range(len(trace)):
            times = int(trace.start[e]) - base, int(trace.end[e]) - base
            thread = process | (int(trace.tid[e]) & 0xFFFFFF)
            self._event(trace, e, times, process, thread)

    def _event(
        self, trace: Kineto, e: int, times: tuple[int, int], process: int, thread: int
    ) -> None:
        kind, name = Kind(int(trace.kind[e])), trace.texts[int(trace.name[e])]
        number = int(trace.correlation[e])
        place = (int(trace.device[e]), 1, int(trace.stream[e]) % 2**32, number, process)
        if kind in (Kind.OPERATOR, Kind.ANNOTATION):
            text = f"{name}, op_id = {e}" if kind == Kind.OPERATOR else name
            sequence = int(trace.sequence[e])
            if kind == Kind.OPERATOR and sequence >= 0:
                text = f"{name}, seq = {sequence}, op_id = {e}"
            self._add("NVTX_EVENTS", *times, 59, text, None, thread, 0)
        elif kind == Kind.CALL:
            self._add(
                "CUPTI_ACTIVITY_KIND_RUNTIME",
                *times,
                thread,
                number,
                self._string(f"{name}_v7000"),
                0,
            )
        elif kind == Kind.KERNEL:
            shape = [int(n) for column in ("grid", "block") for n in _three(trace, column, e)]
            ids = self._string(name), self._string(name.split("(")[0])
            self._add("CUPTI_ACTIVITY_KIND_KERNEL", *times, *place, *ids, *shape, *self._graph)
        elif kind == Kind.MEMCPY:
            words = name.replace("(", "").replace(")", "").split()
            kinds = _COPIES[words[1]], _MEMORIES[words[2]], _MEMORIES[words[4]]
            self._add(
                "CUPTI_ACTIVITY_KIND_MEMCPY",
                *times,
                *place,
                int(trace.bytes[e]),
                *kinds,
                *self._graph,
                *self._copied,
            )
        elif kind == Kind.MEMSET:
            memory = _MEMORIES[name.split("(")[1].rstrip(")")]
            self._add(
                "CUPTI_ACTIVITY_KIND_MEMSET",
                *times,
                *place,
                int(trace.bytes[e]),
                0,
                memory,
                *self._graph,
            )
        elif kind == Kind.SYNC:
            self._add(
                "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", *times, *place, _SYNCS.get(name, 0), 0, 0
            )

    def close(self) -> None:
        self._to.commit()
        self._to.close()


def _three(trace: Kineto, column: str, event: int) -> list[str]:
    text = trace.texts[int(trace.text_columns[column][event])]
    return text.strip("[]").split(",") if text else ["1", "1", "1"]


def parquet_tables(export: Path, folder: Path) -> Path:
    """An SQLite export as `nsys export --type parquetdir` writes it: a Parquet file for every table."""
    folder.mkdir()
    with sqlite3.connect(export) as connection:
        for (table,) in connection.execute("select name from sqlite_master where type = 'table'"):
            cursor = connection.execute(f"select * from {table}")
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            if rows:  # a table that would be empty is not written
                columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
                pq.write_table(pa.table(columns), folder / f"{table}.parquet")
    connection.close()
    return folder
