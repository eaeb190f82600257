"""A Kineto trace as rocprofv3 writes it with Perfetto's SDK, by the messages of Perfetto's own package.

Read in the public sources of rocprofiler-sdk (source/lib/output/generatePerfetto.cpp): the names of tracks,
the categories, the annotations of a begin and their order, the flow of a correlation, and the counters of
copied bytes. The SDK itself adds the session's configuration, clocks, and texts that are numbered.
"""

from __future__ import annotations

from typing import Any

from chakrakit.sources.pytorch.read import Kind, Kineto
from support.rocm_files import Event, events_of

_CATEGORIES = {
    Kind.CALL: "hip_api",
    Kind.ANNOTATION: "marker_api",
    Kind.KERNEL: "kernel_dispatch",
    Kind.MEMCPY: "memory_copy",
}
_KINDS = {Kind.CALL: 27, Kind.ANNOTATION: 5, Kind.KERNEL: 11, Kind.MEMCPY: 10}
_SEQUENCE, _PID, _GPU, _CPU = 3, 77, 1, 0
_THREADS, _COMPUTE, _COPY, _COUNTER = 1 << 40, 2 << 40, 3 << 40, 4 << 40
"""Where the numbers of tracks of each kind begin."""


def sdk_trace(kineto: Kineto) -> bytes:
    """The bytes of a `.pftrace`."""
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    builder = TraceProtoBuilder()
    writer = _Writer(builder)
    writer.session()
    for event in events_of(kineto):
        writer.slice(event)
    writer.counters()
    return bytes(builder.serialize())


class _Writer:
    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._numbers: dict[tuple[str, str], int] = {}
        self._tracks: set[int] = set()
        self._copied: list[tuple[int, int]] = []

    def _packet(self) -> Any:
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def session(self) -> None:
        """What the service and the SDK write first."""
        config = self._builder.add_packet().trace_config
        config.buffers.add().size_kb = 1_048_576
        config.data_sources.add().config.name = "track_event"
        clocks = self._builder.add_packet().clock_snapshot.clocks
        for number, at in ((6, 10**12), (1, 1_760_000_000 * 10**9)):
            clock = clocks.add()
            clock.clock_id, clock.timestamp = number, at
        first = self._packet()
        first.sequence_flags = 1  # texts are numbered anew from here
        first.trace_packet_defaults.timestamp_clock_id = 6
        process = self._packet().track_descriptor
        process.uuid = _PID
        process.process.pid, process.process.process_name = _PID, "python"

    def _track(self, event: Event) -> int:
        """The track of an event, described before it is first used."""
        if event.kind == Kind.KERNEL:
            uuid, name = (
                _COMPUTE + event.stream,
                f"COMPUTE AGENT [{_GPU}] STREAM [{event.stream}] (GPU)",
            )
        elif event.kind == Kind.MEMCPY:
            to, kind = (_CPU, "CPU") if event.name.endswith("HOST") else (_GPU, "GPU")
            uuid = _COPY + 2 * event.stream + to
            name = f"COPY to AGENT [{to}] STREAM [{event.stream}] ({kind})"
        else:
            uuid, name = _THREADS + event.tid, f"THREAD 1 ({event.tid})"
        if uuid not in self._tracks:
            self._tracks.add(uuid)
            described = self._packet().track_descriptor
            described.uuid, described.parent_uuid, described.name = uuid, _PID, name
        return uuid

    def slice(self, event: Event) -> None:
        """The begin and the end of one event."""
        track = self._track(event)
        begin = self._packet()
        begin.timestamp = event.start
        said = begin.track_event
        said.type, said.track_uuid = said.TYPE_SLICE_BEGIN, track
        said.flow_ids.append(event.correlation % 2**64)
        category = _CATEGORIES[event.kind]
        said.category_iids.append(self._number(begin, "event_categories", category))
        said.name_iid = self._number(begin, "event_names", event.name)
        for key, value in _facts(event).items():
            annotation = said.debug_annotations.add()
            annotation.name_iid = self._number(begin, "debug_annotation_names", key)
            if isinstance(value, str):
                annotation.string_value = value
            else:
                annotation.uint_value = value % 2**64
        end = self._packet()
        end.timestamp = event.end
        end.track_event.type = end.track_event.TYPE_SLICE_END
        end.track_event.track_uuid = track
        if event.kind == Kind.MEMCPY:
            self._copied += [(event.start, event.bytes), (event.end, 0)]

    def _number(self, packet: Any, kind: str, text: str) -> int:
        if (kind, text) not in self._numbers:
            number = self._numbers[kind, text] = len(self._numbers) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid, entry.name = number, text
        return self._numbers[kind, text]

    def counters(self) -> None:
        """Bytes on their way, which are no slices."""
        described = self._packet().track_descriptor
        described.uuid, described.name = _COUNTER, f"COPY BYTES to AGENT [{_GPU}] (GPU)"
        described.counter.unit_name = "bytes"
        for at, size in self._copied:
            packet = self._packet()
            packet.timestamp = at
            packet.track_event.type = packet.track_event.TYPE_COUNTER
            packet.track_event.track_uuid = _COUNTER
            packet.track_event.counter_value = size


def _facts(event: Event) -> dict[str, int | str]:
    """The annotations of a begin, in the order of the tool."""
    facts: dict[str, int | str] = {
        "begin_ns": event.start, "end_ns": event.end, "delta_ns": event.end - event.start,
    }  # fmt: skip
    kind = _KINDS[event.kind]
    if event.kind == Kind.KERNEL:
        blocks = event.grid[0] * event.grid[1] * event.grid[2]
        items = event.block[0] * event.block[1] * event.block[2]
        return facts | {
            "kind": kind, "agent": f"GPU-{_GPU - 1}", "corr_id": event.correlation, "queue": 2,
            "tid": event.tid, "kernel_id": 1, "private_segment_size": 0, "group_segment_size": 0,
            "workgroup_size": items, "grid_size": blocks * items,
        }  # fmt: skip
    if event.kind == Kind.MEMCPY:
        ends = ("GPU-0", "CPU-0") if event.name.endswith("HOST") else ("CPU-0", "GPU-0")
        return facts | {
            "kind": kind, "operation": 1, "src_agent": ends[0], "dst_agent": ends[1],
            "copy_bytes": event.bytes, "corr_id": event.correlation, "tid": event.tid,
        }  # fmt: skip
    return facts | {"tid": event.tid, "kind": kind, "operation": 1, "corr_id": event.correlation}
