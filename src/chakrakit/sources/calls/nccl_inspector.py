"""NCCL Inspector's JSON lines (formats 4.0 to 4.3): one process' collectives and messages."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import FormatError
from chakrakit.sources.calls.record import RecordedCalls, RecordedGroup
from chakrakit.sources.pytorch.read import Whole

_MARK = re.compile(rb'"inspector_output_format_version"\s*:')
_VERSION = re.compile(r"^v?4\.(\d+)")


def is_inspector(head: bytes) -> bool:
    """Whether a file's first bytes are those of NCCL Inspector."""
    return _MARK.search(head) is not None


class _Header(msgspec.Struct):
    id: Any = None
    rank: Whole = -1
    n_ranks: Whole = -1


class _Metadata(msgspec.Struct):
    inspector_output_format_version: Any = None
    dump_timestamp_us: float = 0.0
    hostname: str = ""
    pid: Whole = -1


class _Stamps(msgspec.Struct):
    coll_start: float | None = None
    coll_stop: float | None = None
    p2p_start: float | None = None
    p2p_stop: float | None = None


class _Stamped(msgspec.Struct):
    coll: str = ""
    coll_sn: Whole = -1
    coll_msg_size_bytes: Whole = 0
    coll_exec_time_us: float = 0.0
    p2p: str = ""
    p2p_sn: Whole = -1
    p2p_peer: Whole = -1
    p2p_msg_size_bytes: Whole = 0
    p2p_exec_time_us: float = 0.0
    event_trace_ts: _Stamps | None = None


class _Line(msgspec.Struct):
    header: _Header | None = None
    metadata: _Metadata | None = None
    coll_perf: _Stamped | None = None
    p2p_perf: _Stamped | None = None
    proxy_trace: Any = None
    dump_stats: Any = None


_JSON = msgspec.json.Decoder(_Line, strict=False)


@dataclass
class Inspected:
    """A process' records: communicators with the process' place in each, and its calls.

    `places` maps a communicator's id to (rank within it, how many ranks it has).
    """

    places: dict[str, tuple[int, int]]
    calls: RecordedCalls


@dataclass
class _Rows:
    """Columns while they are gathered."""

    group: list[int] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    message: list[bool] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    took: list[int] = field(default_factory=list)


def read_inspector(data: bytes, path: str = "") -> Inspected:
    """Records of a file's bytes (uncompressed). A record belongs to the last header before it."""
    reader = _Reader(path)
    lines = data.splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            reader.take(line, number, last=number == len(lines))
    if not reader.places:
        raise FormatError(
            "it holds no record of NCCL Inspector; was anything larger than "
            "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES communicated?",
            path=path or None,
        )
    return reader.inspected()


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.places: dict[str, tuple[int, int]] = {}
        self.order: list[str] = []
        self.left_out: Counter[str] = Counter()
        self.current = ""
        self.host = ""
        self.rows = _Rows()

    def take(self, text: bytes, number: int, last: bool) -> None:
        try:
            line = _JSON.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if last:  # the process ended while writing
                self.left_out["line cut off"] += 1
                return
            raise FormatError(
                f"line {number} is not a record of NCCL Inspector: {error}", path=self.path or None
            ) from None
        self._head(line)
        self._record(line)

    def _head(self, line: _Line) -> None:
        if line.metadata is not None:
            self._check(line.metadata.inspector_output_format_version)
            self.host = line.metadata.hostname or self.host
        if line.header is not None:
            self.current = str(line.header.id)
            if self.current not in self.places:
                self.order.append(self.current)
            self.places[self.current] = (line.header.rank, line.header.n_ranks)

    def _check(self, version: Any) -> None:
        if version is not None and not _VERSION.match(str(version)):
            raise FormatError(
                f"format version {version!r} of NCCL Inspector is not supported; versions 4.x are read",
                path=self.path or None,
            )

    def _record(self, line: _Line) -> None:
        if line.coll_perf is None and line.p2p_perf is None:
            line_kind = "proxy_trace" if line.proxy_trace is not None else "marker"
            self.left_out[line_kind] += 1
            return
        if not self.current:
            self.left_out["record before any communicator"] += 1
            return
        if line.coll_perf is not None:
            c = line.coll_perf
            self._add(c.coll, c.coll_sn, c.coll_msg_size_bytes, c.coll_exec_time_us, c, False)
        if line.p2p_perf is not None:
            c = line.p2p_perf
            self._add(self._message(c), c.p2p_sn, c.p2p_msg_size_bytes, c.p2p_exec_time_us, c, True)

    def _message(self, c: _Stamped) -> str:
        """The name PyTorch would give a message, so that both recorders' names are read the same way."""
        rank_in_group = self.places[self.current][0]
        name = (c.p2p or c.coll or "Send").lower()
        arrow = "->" if "send" in name else "<-"
        return f"{'send' if arrow == '->' else 'recv'} {rank_in_group}{arrow}{c.p2p_peer}"

    def _add(
        self, name: str, number: int, size: int, took_us: float, record: _Stamped, message: bool
    ) -> None:
        stamps = record.event_trace_ts or _Stamps()
        start = stamps.p2p_start if message else stamps.coll_start
        stop = stamps.p2p_stop if message else stamps.coll_stop
        rows = self.rows
        rows.group.append(self.order.index(self.current))
        rows.sequence.append(number)
        rows.message.append(message)
        rows.name.append(name)
        rows.size.append(size)
        rows.took.append(_nanoseconds(took_us))
        rows.start.append(-1 if start is None else _nanoseconds(start))
        rows.end.append(-1 if stop is None else _nanoseconds(stop))

    def inspected(self) -> Inspected:
        rows = self.rows
        names = sorted(set(rows.name))
        sizes = sorted(set(rows.size))
        number = {n: i for i, n in enumerate(names)}
        place = {s: i for i, s in enumerate(sizes)}
        start, end, placed = _placed(rows)
        size = np.array([place[s] for s in rows.size], np.int64)
        return Inspected(
            self.places,
            RecordedCalls(
                rank=-1,
                host=self.host,
                group=np.array(rows.group, np.int64),
                groups=[RecordedGroup(name, "", ()) for name in self.order],
                sequence=np.array(rows.sequence, np.int64),
                message=np.array(rows.message, np.bool_),
                name=np.array([number[n] for n in rows.name], np.int64),
                names=names,
                created=start,
                started=np.full(len(start), -1, np.int64),
                completed=end,
                device_ns=np.array(rows.took, np.int64),
                timeout_ns=np.full(len(start), -1, np.int64),
                state=np.full(len(start), -1, np.int64),
                in_sizes=size,
                out_sizes=size,
                in_types=np.full(len(start), len(sizes), np.int64),
                out_types=np.full(len(start), len(sizes), np.int64),
                texts=[*([[s]] for s in sizes), ["byte"]],
                left_out=dict(self.left_out),
                repaired={"placed_without_start": placed} if placed else {},
            ),
        )


def _nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000) if abs(microseconds) < 1e16 else -1


def _placed(rows: _Rows) -> tuple[Any, Any, int]:
    """Starts and ends; records without stamps follow each other, since only how long they took is known."""
    start, end = np.array(rows.start, np.int64), np.array(rows.end, np.int64)
    took = np.maximum(np.array(rows.took, np.int64), 0)
    bare = start < 0
    stamped_starts = start[~bare]
    base = int(stamped_starts.max()) if len(stamped_starts) else 0
    begun = base + np.cumsum(np.where(bare, took, 0)) - took
    start = np.where(bare, begun, start)
    end = np.where(bare | (end < start), start + took, end)
    return start, end, int(bare.sum())
