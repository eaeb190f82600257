"""rocpd, the SQLite database that rocprofv3 writes by default: each process as the columns that are linked.

Tables are called `rocpd_NAME`, with the recording's number behind the name (`rocpd_string_0198…`); a database
of several recordings has each table once for each number. `rocpd_kernel_dispatch`, `rocpd_memory_copy` and
`rocpd_region` (calls and markers of host threads) hold start and end in ns. They point to texts
(`rocpd_string`), to agents, threads, processes, nodes and kernel symbols (`rocpd_info_…`), and to
`rocpd_event`, whose `stack_id` is what a call and its device work share, whose `category_id` names the kind
of a call, and whose `extdata` holds the message of a marker. Grids are counted in work items. In later
schemas times are in `rocpd_timestamp`, process, thread, agent, queue and stream in `rocpd_track`, and
categories in `rocpd_info_category`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.operators import json_value
from chakrakit.sources.activities import Activities
from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.sources.rocprof import block_text, copy_name, grid_text
from chakrakit.sources.tables import SQLITE, Tables, open_sqlite

_NAME = "rocpd_"
_DISPATCH, _COPY, _REGION = "kernel_dispatch", "memory_copy", "region"
_PLACES = ("pid", "tid", "agent_id", "queue_id", "stream_id")
"""What later schemas keep in a table of tracks."""
_SIZES = tuple(f"{part}_size_{axis}" for part in ("grid", "workgroup") for axis in "xyz")


def is_rocpd(head: bytes) -> bool:
    """Whether a file's first bytes are those of an SQLite file with tables of rocpd."""
    return head.startswith(SQLITE) and b"rocpd_string" in head


def read_processes(path: Path) -> list[Kineto]:
    """All events of each process of each recording in a database."""
    with open_sqlite(path) as tables:
        _refuse_rpd(tables, path)
        recordings = [_Recording(tables, suffix) for suffix in _suffixes(tables)]
        out = [_kineto(r, process) for r in recordings for process in r.processes]
    if not out:
        raise FormatError(
            "this rocpd database holds no kernels, copies or calls; record with `rocprofv3 --runtime-trace`",
            path=str(path),
        )
    return out


def _refuse_rpd(tables: Tables, path: Path) -> None:
    """rocmProfileData, an older tool, calls its tables alike; calls and device work are in two of them."""
    if {"rocpd_api", "rocpd_op"} <= tables.columns.keys():
        raise FormatError(
            "a database of rocmProfileData (rpd), whose tables are not those of rocprofv3; record again with "
            "`rocprofv3 --runtime-trace`, or with PyTorch's profiler",
            path=str(path),
        )


def _suffixes(tables: Tables) -> list[str]:
    """What stands behind the names of each recording's tables; nothing in databases of a single one."""
    name = _NAME + "string"
    return sorted(table.removeprefix(name) for table in tables.columns if table.startswith(name))


@dataclass(frozen=True)
class _Recording:
    """The tables of one recording, by their names without number."""

    tables: Tables
    suffix: str

    def numbers(self, name: str, columns: Sequence[str]) -> dict[str, I64]:
        return self.tables.numbers(_NAME + name + self.suffix, columns)

    def work(self, name: str, columns: Sequence[str]) -> dict[str, I64]:
        """Columns of host or device work, wherever a schema keeps its times and places."""
        out = self.numbers(name, columns)
        if self.tables.has(_NAME + name + self.suffix, "start_id"):
            ids = self.numbers(name, ("start_id", "end_id", "track_id"))
            times = self.numbers("timestamp", ("id", "value"))
            tracks = self.numbers("track", ("id", *_PLACES))
            for column in ("start", "end"):
                out[column] = _looked_up(times["id"], times["value"], ids[f"{column}_id"])
            for column in set(columns) & set(_PLACES):
                out[column] = _looked_up(tracks["id"], tracks[column], ids["track_id"])
        return out

    def texts(self, name: str, value: str) -> dict[int, str]:
        return self.tables.texts(_NAME + name + self.suffix, "id", value)

    @cached_property
    def strings(self) -> dict[int, str]:
        return self.texts("string", "string")

    @cached_property
    def events(self) -> dict[int, tuple[int, str, str]]:
        """By number: what a call shares with its device work, the kind of a call, a marker's message."""
        table = _NAME + "event" + self.suffix
        categories = self.texts("info_category", "name") or self.strings
        rows = self.tables.rows(table, ("id", "stack_id", "category_id", "extdata"))
        whole = self.tables.whole
        return {
            whole(i, table): (
                whole(stack, table),
                categories.get(whole(category, table), ""),
                _message(extra),
            )
            for i, stack, category, extra in rows
        }

    @cached_property
    def gpus(self) -> dict[int, tuple[int, str]]:
        """The number among the GPUs and the name of each agent that is one, by its id."""
        table = _NAME + "info_agent" + self.suffix
        rows = self.tables.rows(table, ("id", "type", "product_name", "name"))
        gpus = sorted(
            (self.tables.whole(i, table), str(product or name or ""))
            for i, kind, product, name in rows
            if kind == "GPU"
        )
        return {i: (number, name) for number, (i, name) in enumerate(gpus)}

    @property
    def processes(self) -> list[int]:
        """The ids of processes that did something, those of the lowest device first."""
        device: dict[int, int] = {}
        for name, agent in ((_DISPATCH, "agent_id"), (_COPY, "dst_agent_id"), (_REGION, "tid")):
            rows = self.work(name, ("pid", agent))
            for pid, place in zip(rows["pid"].tolist(), rows[agent].tolist(), strict=True):
                number = len(self.gpus) if name == _REGION else self.gpus.get(place, (0, ""))[0]
                device[pid] = min(device.get(pid, number), number)
        return sorted(device, key=lambda pid: (device[pid], pid))

    @cached_property
    def host_name(self) -> str:
        return next(iter(self.texts("info_node", "hostname").values()), "")


def _looked_up(keys: I64, values: I64, wanted: I64) -> I64:
    """The value of each wanted key; -1 for those that are not there."""
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    return np.where(keys[order][place] == wanted, values[order][place], -1)


def _message(extra: Any) -> str:
    facts = json_value(extra) if isinstance(extra, str) and len(extra) > len("{}") else None
    message = facts.get("message") if isinstance(facts, dict) else None
    return message if isinstance(message, str) else ""


def _kineto(recording: _Recording, process: int) -> Kineto:
    reader = _Reader(recording, process)
    reader.regions()
    reader.kernels()
    reader.copies()
    reader.others()
    devices = [{"id": number, "name": name} for number, name in recording.gpus.values()]
    return reader.activities.kineto(0, host_name=recording.host_name, devices=devices)


class _Reader:
    """Fills `activities` with one process' rows."""

    def __init__(self, recording: _Recording, process: int) -> None:
        self.recording, self.process = recording, process
        self.activities = Activities(recording.tables.path)
        self.pid = _number_of(recording, "info_process", "pid").get(process, process)
        self.thread_of = _number_of(recording, "info_thread", "tid")

    def _mine(self, name: str, columns: Sequence[str]) -> dict[str, I64]:
        rows = self.recording.work(name, (*columns, "pid"))
        mine = rows["pid"] == self.process
        return {c: rows[c][mine] for c in columns}

    def _shared(self, events: I64) -> list[int]:
        return [self.recording.events.get(e, (-1,))[0] for e in events.tolist()]

    def _threads(self, ids: I64) -> list[int]:
        return [self.thread_of.get(i, i) for i in ids.tolist()]

    def regions(self) -> None:
        """Calls into HIP (into HSA where there are none), markers and calls of RCCL."""
        rows = self._mine(_REGION, ("start", "end", "tid", "name_id", "event_id"))
        facts = [self.recording.events.get(e, (-1, "", "")) for e in rows["event_id"].tolist()]
        kinds = np.array([_region_kind(category) for _, category, _ in facts], object)
        runtime = "hip" if "hip" in kinds else "hsa"
        names = [
            message or self.recording.strings.get(n, f"call {n}")
            for n, (*_, message) in zip(rows["name_id"].tolist(), facts, strict=True)
        ]
        for word, kind in ((runtime, Kind.CALL), ("range", Kind.ANNOTATION)):
            picked = np.flatnonzero(kinds == word)
            self.activities.add(
                kind,
                [names[i] for i in picked.tolist()],
                rows["start"][picked],
                rows["end"][picked],
                pid=self.pid,
                tid=self._threads(rows["tid"][picked]),
                correlation=[facts[i][0] for i in picked.tolist()] if kind == Kind.CALL else -1,
            )
        for word in sorted({str(k) for k in kinds} - {runtime, "range"}):
            self.activities.leave_out(f"calls of {word}", int((kinds == word).sum()))

    def _lanes(self, rows: Mapping[str, I64], agents: Sequence[int]) -> dict[str, Any]:
        """Device and stream; recordings without streams have only hardware queues."""
        streams = rows["stream_id"] if (rows["stream_id"] > 0).any() else rows["queue_id"]
        device = [self.recording.gpus.get(a, (a, ""))[0] for a in agents]
        return {"device": device, "pid": device, "stream": streams, "tid": streams}

    def kernels(self) -> None:
        """Kernels by their symbols."""
        lanes = ("stream_id", "queue_id", "agent_id")
        rows = self._mine(_DISPATCH, ("start", "end", "kernel_id", "event_id", *lanes, *_SIZES))
        plain = self.recording.texts("info_kernel_symbol", "kernel_name")
        names = plain | {
            i: n for i, n in self.recording.texts("info_kernel_symbol", "display_name").items() if n
        }
        sizes = list(zip(*(rows[c].tolist() for c in _SIZES), strict=True))
        self.activities.add(
            Kind.KERNEL,
            [names.get(k) or f"kernel {k}" for k in rows["kernel_id"].tolist()],
            rows["start"],
            rows["end"],
            correlation=self._shared(rows["event_id"]),
            grid=[grid_text(s[:3], s[3:]) for s in sizes],
            block=[block_text(s[3:]) for s in sizes],
            **self._lanes(rows, rows["agent_id"].tolist()),
        )

    def copies(self) -> None:
        """Copies, on the device they go to, or come from where they go to the host."""
        ends = ("dst_agent_id", "src_agent_id")
        columns = ("start", "end", "name_id", "size", "event_id", "stream_id", "queue_id", *ends)
        rows = self._mine(_COPY, columns)
        agents = [
            to if to in self.recording.gpus else source
            for to, source in zip(*(rows[c].tolist() for c in ends), strict=True)
        ]
        self.activities.add(
            Kind.MEMCPY,
            [copy_name(self.recording.strings.get(n, "")) for n in rows["name_id"].tolist()],
            rows["start"],
            rows["end"],
            correlation=self._shared(rows["event_id"]),
            bytes=rows["size"],
            **self._lanes(rows, agents),
        )

    def others(self) -> None:
        """Counts what has no place in a trace."""
        for name in ("memory_allocate", "pmc_event", "sample"):
            rows = self.recording.work(name, ("pid",))["pid"]
            self.activities.leave_out(name, int(((rows == self.process) | (rows < 0)).sum()))


def _number_of(recording: _Recording, name: str, column: str) -> dict[int, int]:
    rows = recording.numbers(name, ("id", column))
    return dict(zip(rows["id"].tolist(), rows[column].tolist(), strict=True))


def _region_kind(category: str) -> str:
    """What the kind of a call is to a trace: a library's runtime, a range, or the kind itself."""
    if category.startswith(("MARKER_", "RCCL_")):
        return "range"
    return category.split("_")[0].lower() if category.startswith(("HIP_", "HSA_")) else category
