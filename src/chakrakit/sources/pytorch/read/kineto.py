"""Kineto's JSON as columns: when everything ran, in exact nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.errors import FormatError
from chakrakit.operators import json_list, json_value
from chakrakit.sources.pytorch.read.observer import Extras
from chakrakit.sources.pytorch.read.texts import TextPool, columns_of
from chakrakit.trace.timing import CLOCK_NS, HORIZON_DAYS, HORIZON_NS, span_of


class Kind(IntEnum):
    """What an event is to the linker."""

    OTHER = 0
    OPERATOR = 1
    ANNOTATION = 2
    CALL = 3
    """A call into the device's runtime or driver."""
    KERNEL = 4
    MEMCPY = 5
    MEMSET = 6
    SYNC = 7
    """A tracer's record of a synchronization; the call itself is a CALL."""
    RANGE = 8
    """A user annotation projected onto the device."""
    PYTHON = 9
    OVERHEAD = 10


_KINDS = {
    "cpu_op": Kind.OPERATOR,
    "operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "cuda_runtime": Kind.CALL,
    "cuda_driver": Kind.CALL,
    "hip_runtime": Kind.CALL,
    "xpu_runtime": Kind.CALL,
    "xpu_driver": Kind.CALL,
    "mtia_runtime": Kind.CALL,
    "privateuse1_runtime": Kind.CALL,
    "privateuse1_driver": Kind.CALL,
    "runtime": Kind.CALL,
    "driver": Kind.CALL,
    "kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "gpu_user_annotation": Kind.RANGE,
    "python_function": Kind.PYTHON,
    "overhead": Kind.OVERHEAD,
}


@dataclass(frozen=True)
class Flows:
    """Kineto's arrows from a forward operator to its backward one, matched by id."""

    forward_tid: I64
    forward_ts: I64
    backward_tid: I64
    backward_ts: I64


@dataclass(frozen=True)
class Kineto:
    """Complete events of one Kineto file, in file order.

    `start` and `end` are nanoseconds since `base_ns`. A number that the file does not give is -1.
    """

    kind: I8
    name: I32
    pid: I64
    tid: I64
    start: I64
    end: I64
    external: I64
    rf_id: I64
    correlation: I64
    stream: I64
    device: I64
    sequence: I64
    fwd_thread: I64
    bytes: I64
    python_id: I64
    python_parent: I64
    graph_node: I64
    text_columns: dict[str, I32]
    extras: Extras
    flows: Flows
    texts: TextPool
    base_ns: int
    host_name: str
    distributed: dict[str, Any]
    devices: list[dict[str, Any]]
    left_out: dict[str, int]
    truncated: bool
    repaired: int
    dropped: int
    endless: int = field(default=0, kw_only=True)
    """Events whose end was lost, which count as moments."""
    steps: I64 | None = None
    """The step of each event, -1 for none, where a format tells it by event and not by ranges."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> I64:
        """How long each event took."""
        return self.end - self.start

    @property
    def is_device(self) -> Mask:
        """Kernels, copies and fills: what ran on the device."""
        return (self.kind >= Kind.KERNEL) & (self.kind <= Kind.MEMSET)

    @property
    def is_host(self) -> Mask:
        """Operators, annotations and runtime calls: what ran on host threads."""
        return (self.kind >= Kind.OPERATOR) & (self.kind <= Kind.CALL)


def read_kineto(data: bytes, path: str = "") -> Kineto:
    """Columns of a Kineto file's bytes (uncompressed)."""
    raw = columns_of(core.read_kineto, data, path, "export_chrome_trace")
    check_times(raw["ts"], raw["dur"], raw["base_ns"], path)
    return _kineto(raw)


def check_times(start: I64, duration: I64, base_ns: int, path: str) -> None:
    """Raise a FormatError for times outside any clock's range, or further apart than a recording lasts."""
    check_clock(start, duration, base_ns, path)
    check_span(start, duration, path)


def check_clock(start: I64, duration: I64, base_ns: int, path: str) -> None:
    """Raise a FormatError for times outside any clock's range, whose sums would wrap around."""
    early, late = start < -CLOCK_NS, start > CLOCK_NS
    wrong = np.flatnonzero(early | late | (duration < 0) | (duration > CLOCK_NS))
    if len(wrong) or not 0 <= base_ns <= CLOCK_NS:
        event = f"event {wrong[0]:,} has a time" if len(wrong) else "its clock began at a time"
        raise FormatError(f"{event} that no clock shows; the file is damaged", path=path or None)


def check_span(start: I64, duration: I64, path: str) -> None:
    """Raise a FormatError that names the event furthest from the others, if they are beyond the horizon."""
    if span_of(start, start + duration) > HORIZON_NS:
        usual = int(np.median(start))
        far = int(np.argmax(np.maximum(np.abs(start - usual), np.abs(start + duration - usual))))
        raise FormatError(
            f"event {far:,} is {abs(int(start[far]) - usual) / _DAY_NS:,.1f} days from the others and lasts "
            f"{int(duration[far]) / _DAY_NS:,.1f}; a recording has {HORIZON_DAYS} days in all",
            path=path or None,
        )


class RankSpan(NamedTuple):
    """When what a file says of a rank began and ended."""

    path: str
    begin: int
    end: int


def check_together(spans: Sequence[RankSpan]) -> None:
    """Refuse files of different jobs, which a folder may hold: they lie months apart."""
    first, last = min(spans, key=lambda s: s.begin), max(spans, key=lambda s: s.end)
    apart = last.end - first.begin
    if apart > HORIZON_NS:
        raise FormatError(
            f"recorded {apart / _DAY_NS:,.0f} days after {Path(first.path).name}, so that they are not ranks "
            "of one job; give one of them",
            path=last.path,
        )


_DAY_NS = 86_400 * 10**9


NUMBERS = (
    "pid",
    "tid",
    "external",
    "rf_id",
    "correlation",
    "stream",
    "device",
    "sequence",
    "fwd_thread",
    "bytes",
    "python_id",
    "python_parent",
    "graph_node",
)
TEXTS = ("in_dims", "in_types", "in_strides", "in_values", "grid", "block")
"""Columns of every event: numbers, and places in the table of texts. Any tracer's reader fills these."""


def _kineto(raw: dict[str, Any]) -> Kineto:
    texts = TextPool(*raw["texts"])
    kinds = [_KINDS.get(s.lower(), Kind.OTHER) for s in texts.strings]
    kind = np.asarray(kinds, np.int8)[raw["cat"]]
    return Kineto(
        kind=kind,
        name=raw["name"],
        start=raw["ts"],
        end=raw["ts"] + raw["dur"],
        **{c: raw[c] for c in NUMBERS} | _places(raw, kind),
        text_columns={c: raw[c] for c in TEXTS},
        extras=Extras(raw["extra_event"], raw["extra_key"], raw["extra_value"], texts),
        flows=_flows(raw),
        texts=texts,
        base_ns=raw["base_ns"],
        host_name=texts[raw["host_name"]],
        distributed=_object(texts[raw["distributed"]]),
        devices=[d for d in json_list(texts[raw["devices"]]) if isinstance(d, dict)],
        left_out={texts[k] or "(none)": n for k, n in raw["left_out"].items()},
        truncated=raw["truncated"],
        repaired=raw["repaired"],
        dropped=raw["dropped"],
    )


def _places(raw: dict[str, Any], kind: I8) -> dict[str, I64]:
    """Device and stream of every event; device rows that name none, as MTIA's, are drawn on them."""
    on_device = (kind >= Kind.KERNEL) & (kind <= Kind.MEMSET)
    return {
        column: np.where(on_device & (raw[column] < 0), raw[place], raw[column])
        for column, place in (("device", "pid"), ("stream", "tid"))
    }


def _object(text: str) -> dict[str, Any]:
    value = json_value(text)
    return value if isinstance(value, dict) else {}


def _flows(raw: dict[str, Any]) -> Flows:
    finish = raw["flow_finish"].astype(np.bool_)
    begin_ids, first = np.unique(raw["flow_id"][~finish], return_index=True)
    end_ids, last = np.unique(raw["flow_id"][finish], return_index=True)
    _, b, e = np.intersect1d(begin_ids, end_ids, return_indices=True)
    tid, ts = raw["flow_tid"], raw["flow_ts"]
    return Flows(
        tid[~finish][first[b]], ts[~finish][first[b]], tid[finish][last[e]], ts[finish][last[e]]
    )
