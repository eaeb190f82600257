"""rocprofv3's Perfetto traces (`.pftrace`): the process of a file as the columns that are linked.

A trace is a list of packets in protobuf's wire form. Of what a packet may hold, these are read: a track's
descriptor (number and name), texts that later packets of its sequence name by number, and a slice's begin on
a track. rocprofv3 writes calls on tracks of threads, kernels and copies on those of streams or queues, and
the facts of each as annotations of the begin: `begin_ns` and `end_ns`, `corr_id`, `tid`, `agent`, `queue`,
`copy_bytes`. Packets have times too, which are not used: their clock may count from packet to packet. The
category says what a slice is: `hip_api`, `hsa_api`, `marker_api`, `rccl_api`, `kernel_dispatch` or
`memory_copy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.sources.activities import Activities
from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.sources.rocprof import copy_name
from chakrakit.trace.model import wire

_PACKET, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 1, 10, 11, 12, 13, 60
"""Fields: a trace's packets, and of a packet its sequence and what it holds."""
_CLEARED = 1
"""The flag of a packet after which the texts of its sequence are numbered anew."""
_CATEGORIES, _NAMES, _ANNOTATIONS = 1, 2, 3
"""Fields of interned data: entries with a number (1) and a text (2)."""
_EVENT_TYPE, _EVENT_TRACK, _EVENT_CATEGORY_ID, _EVENT_NAME_ID = 9, 11, 3, 10
_EVENT_CATEGORY, _EVENT_NAME, _EVENT_ANNOTATION = 22, 23, 4
_BEGIN = 1
"""The type of an event that begins a slice."""
_KINDS = {
    "hip_api": Kind.CALL,
    "hsa_api": Kind.CALL,
    "marker_api": Kind.ANNOTATION,
    "rccl_api": Kind.ANNOTATION,
    "kernel_dispatch": Kind.KERNEL,
    "memory_copy": Kind.MEMCPY,
}
_MARK = re.compile(rb"hip_api|hsa_api|kernel_dispatch|memory_copy|marker_api|rccl_api|rocprof")
_STREAM = re.compile(r"(?:STREAM|QUEUE) \[\D*(\d+)\D*\]")
_DEVICE = re.compile(r"\d+$")


def is_perfetto(head: bytes) -> bool:
    """Whether a file's first bytes are packets of a Perfetto trace that rocprofv3 wrote."""
    return head[:1] == b"\x0a" and _MARK.search(head) is not None


@dataclass
class _Slice:
    """The begin of a slice, with the facts that annotate it."""

    category: str
    name: str
    track: int
    facts: dict[str, Any]

    def number(self, key: str, missing: int = -1) -> int:
        """A fact as a number; agents are told as text, whose last number counts."""
        value = self.facts.get(key, missing)
        digits = _DEVICE.search(value) if isinstance(value, str) else None
        return int(digits[0][-18:]) if digits else value if isinstance(value, int) else missing


@dataclass
class _Sequence:
    """The texts that packets of one writer name by number."""

    texts: dict[tuple[int, int], str] = field(default_factory=dict)

    def learn(self, interned: bytes) -> None:
        for kind, entry in wire.fields(interned):
            if kind in (_CATEGORIES, _NAMES, _ANNOTATIONS) and isinstance(entry, bytes):
                parts = dict(wire.fields(entry))
                number = parts.get(1)
                if isinstance(number, int):
                    self.texts[kind, number] = _text(parts.get(2))

    def slice(self, event: bytes) -> _Slice | None:
        """The slice that an event begins; None for ends, moments and counters."""
        parts: dict[int, int | bytes] = {}
        facts: dict[str, Any] = {}
        for number, value in wire.fields(event):
            if number == _EVENT_ANNOTATION and isinstance(value, bytes):
                facts |= self._fact(value)
            else:
                parts[number] = value
        if parts.get(_EVENT_TYPE) != _BEGIN:
            return None
        return _Slice(
            _text(parts.get(_EVENT_CATEGORY))
            or self._named(_CATEGORIES, parts, _EVENT_CATEGORY_ID),
            _text(parts.get(_EVENT_NAME)) or self._named(_NAMES, parts, _EVENT_NAME_ID),
            _whole(parts.get(_EVENT_TRACK)),
            facts,
        )

    def _named(self, kind: int, parts: dict[int, int | bytes], at: int) -> str:
        return self.texts.get((kind, _whole(parts.get(at))), "")

    def _fact(self, annotation: bytes) -> dict[str, Any]:
        """The name of an annotation (text 10, number 1) and its value: a number (3, 4) or a text (6)."""
        parts = dict(wire.fields(annotation))
        name = _text(parts.get(10)) or self.texts.get((_ANNOTATIONS, _whole(parts.get(1))), "")
        values = [parts[n] for n in (3, 4, 6) if n in parts]
        value = values[0] if values else None
        return {name: value if isinstance(value, int) else _text(value)} if name else {}


def _text(value: int | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _whole(value: int | bytes | None) -> int:
    """A number; packed lists hold the number first."""
    if isinstance(value, bytes) and value:
        return wire.read_varint(value, 0)[0]
    return value if isinstance(value, int) else -1


def read_processes(data: bytes, path: str = "") -> list[Kineto]:
    """The one process of a trace's bytes (uncompressed)."""
    try:
        tracks, slices = _read(data)
    except FormatError as error:
        raise FormatError(f"not a Perfetto trace: {error}", path=path or None) from None
    activities = Activities(path)
    calls = "hip_api" if any(s.category == "hip_api" for s in slices) else "hsa_api"
    by_kind: dict[Kind, list[_Slice]] = {}
    for one in slices:
        kind = _KINDS.get(one.category)
        if kind is None or (kind == Kind.CALL and one.category != calls):
            activities.leave_out(one.category or "slices without a category")
        elif not {"begin_ns", "end_ns"} <= one.facts.keys():
            activities.leave_out(f"{one.category} without begin_ns and end_ns")
        else:
            by_kind.setdefault(kind, []).append(one)
    if not by_kind:
        raise FormatError(
            "this Perfetto trace holds no kernels, copies or calls of rocprofv3; give the recording that it "
            "was made from",
            path=path or None,
        )
    for kind in sorted(by_kind):
        _add(activities, kind, by_kind[kind], tracks)
    return [activities.kineto(0)]


def _read(data: bytes) -> tuple[dict[int, str], list[_Slice]]:
    """The names of tracks by their numbers, and all slices in the order of the file."""
    tracks: dict[int, str] = {}
    slices: list[_Slice] = []
    sequences: dict[int, _Sequence] = {}
    for packet in _packets(data):
        sequence = sequences.setdefault(_whole(packet.get(_SEQUENCE)), _Sequence())
        if _whole(packet.get(_FLAGS)) & _CLEARED and _FLAGS in packet:
            sequence.texts.clear()
        if isinstance(interned := packet.get(_INTERNED), bytes):
            sequence.learn(interned)
        if isinstance(descriptor := packet.get(_DESCRIPTOR), bytes):
            parts = dict(wire.fields(descriptor))
            tracks[_whole(parts.get(1))] = _text(parts.get(2))
        if isinstance(event := packet.get(_EVENT), bytes):
            one = sequence.slice(event)
            slices += [one] if one is not None else []
    return tracks, slices


def _packets(data: bytes) -> Iterator[dict[int, int | bytes]]:
    for number, packet in wire.fields(data):
        if number == _PACKET and isinstance(packet, bytes):
            yield dict(wire.fields(packet))


def _add(activities: Activities, kind: Kind, slices: list[_Slice], tracks: dict[int, str]) -> None:
    on_device = kind in (Kind.KERNEL, Kind.MEMCPY)
    if on_device:
        lanes = [_lane(one, tracks) for one in slices]
        device, stream = [d for d, _ in lanes], [s for _, s in lanes]
        columns = {"device": device, "pid": device, "stream": stream, "tid": stream}
        columns["bytes"] = [one.number("copy_bytes") for one in slices]
    else:
        columns = {"tid": [one.number("tid", one.track) for one in slices]}
    linked = on_device or kind == Kind.CALL
    activities.add(
        kind,
        [copy_name(one.name) if kind == Kind.MEMCPY else one.name for one in slices],
        [one.number("begin_ns") for one in slices],
        [one.number("end_ns") for one in slices],
        correlation=[one.number("corr_id") if linked else -1 for one in slices],
        **columns,
    )


def _lane(one: _Slice, tracks: dict[int, str]) -> tuple[int, int]:
    """Device and stream: by the names of tracks where these tell, else the queue."""
    on = _STREAM.search(tracks.get(one.track, ""))
    stream = int(on[1][-18:]) if on else one.number("queue", one.track)
    end = "src_agent" if one.name.endswith("TO_HOST") else "dst_agent"
    return one.number("agent", one.number(end, 0)), stream
