"""rocprofv3's JSON: each process of a file as the columns that are linked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from chakrakit.errors import FormatError
from chakrakit.sources.activities import Activities
from chakrakit.sources.pytorch.read import Kind, Kineto, Whole

_MARK = re.compile(rb'"rocprofiler-sdk-tool"\s*:')
_COPY = re.compile(r"(HOST|DEVICE)_TO_(HOST|DEVICE)$")


def is_rocprof(head: bytes) -> bool:
    """Whether a file's first bytes are those of rocprofv3's JSON."""
    return _MARK.search(head[:4096]) is not None


class _Handle(msgspec.Struct):
    handle: Whole = -1


class _Correlation(msgspec.Struct):
    internal: Whole = -1


class _Size(msgspec.Struct):
    x: Whole = 1
    y: Whole = 1
    z: Whole = 1

    @property
    def axes(self) -> tuple[int, int, int]:
        return self.x, self.y, self.z


class _Dispatch(msgspec.Struct):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: Whole = -1
    workgroup_size: _Size = msgspec.field(default_factory=_Size)
    grid_size: _Size = msgspec.field(default_factory=_Size)


class _Record(msgspec.Struct):
    """A record of any buffer; each kind has some of these fields."""

    start_timestamp: Whole = 0
    end_timestamp: Whole = 0
    kind: Whole = 0
    operation: Whole = 0
    thread_id: Whole = -1
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    stream_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: Whole = -1


class _Symbol(msgspec.Struct):
    kernel_id: Whole = -1
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    truncated_kernel_name: str = ""

    @property
    def name(self) -> str:
        return self.formatted_kernel_name or self.demangled_kernel_name or self.kernel_name


class _Agent(msgspec.Struct):
    id: _Handle = msgspec.field(default_factory=_Handle)
    type: Whole = 0
    product_name: str = ""
    name: str = ""
    logical_node_type_id: Whole = -1


class _Kind(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class _Text(msgspec.Struct):
    key: Any = None
    value: Any = None


class _Strings(msgspec.Struct):
    buffer_records: list[_Kind] = []
    marker_api: list[_Text] = []


class _Node(msgspec.Struct):
    hostname: str = ""


class _Metadata(msgspec.Struct):
    node: _Node = msgspec.field(default_factory=_Node)
    pid: Whole = -1


class _Process(msgspec.Struct):
    buffer_records: dict[str, list[_Record]]
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []


class _File(msgspec.Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process]


def read_processes(data: bytes, path: str = "") -> list[Kineto]:
    """The processes of a file's bytes (uncompressed), in the file's order."""
    try:
        file = msgspec.json.decode(data, type=_File, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(
            f"not a JSON file of rocprofv3: {error}; write it with `rocprofv3 --output-format json`",
            path=path or None,
        ) from None
    return [_Reader(process, path).kineto() for process in file.processes]


class _Reader:
    """Turns one process' buffers into columns."""

    def __init__(self, process: _Process, path: str) -> None:
        self.process, self.pid = process, process.metadata.pid
        self.activities = Activities(path)
        gpus = [a for a in process.agents if a.type == 2]
        self.device = {a.id.handle: i for i, a in enumerate(gpus)}
        self.gpus = gpus
        self.texts = {str(t.key): str(t.value) for t in process.strings.marker_api}

    def kineto(self) -> Kineto:
        buffers = self.process.buffer_records
        calls = "hip_api" if buffers.get("hip_api") else "hsa_api"
        for name, records in buffers.items():
            if name == "kernel_dispatch":
                self._kernels(records)
            elif name == "memory_copy":
                self._copies(records)
            elif name in ("marker_api", "rccl_api", calls):
                self._host(Kind.CALL if name == calls else Kind.ANNOTATION, records)
            else:
                self.activities.leave_out(name, len(records))
        return self.activities.kineto(
            0,
            host_name=self.process.metadata.node.hostname,
            devices=[{"id": i, "name": a.product_name or a.name} for i, a in enumerate(self.gpus)],
        )

    def _times(self, records: list[_Record]) -> tuple[list[int], list[int]]:
        return [r.start_timestamp for r in records], [r.end_timestamp for r in records]

    def _lanes(self, records: list[_Record], agents: list[int]) -> dict[str, list[int]]:
        """Device and stream; recordings without streams have only hardware queues."""
        streams = [r.stream_id.handle for r in records]
        if max(streams, default=1) <= 0:
            streams = [r.dispatch_info.queue_id.handle for r in records]
        device = [self.device.get(a, a) for a in agents]
        return {"device": device, "pid": device, "stream": streams, "tid": streams}

    def _kernels(self, records: list[_Record]) -> None:
        names = {s.kernel_id: s.name for s in self.process.kernel_symbols}
        info = [r.dispatch_info for r in records]
        self.activities.add(
            Kind.KERNEL,
            [names.get(d.kernel_id, f"kernel {d.kernel_id}") for d in info],
            *self._times(records),
            correlation=[r.correlation_id.internal for r in records],
            grid=[grid_text(d.grid_size.axes, d.workgroup_size.axes) for d in info],
            block=[block_text(d.workgroup_size.axes) for d in info],
            **self._lanes(records, [d.agent_id.handle for d in info]),
        )

    def _copies(self, records: list[_Record]) -> None:
        agents = [
            r.dst_agent_id.handle if r.dst_agent_id.handle in self.device else r.src_agent_id.handle
            for r in records
        ]
        self.activities.add(
            Kind.MEMCPY,
            [copy_name(self._operation(r)) for r in records],
            *self._times(records),
            correlation=[r.correlation_id.internal for r in records],
            bytes=[r.bytes for r in records],
            **self._lanes(records, agents),
        )

    def _host(self, kind: Kind, records: list[_Record]) -> None:
        self.activities.add(
            kind,
            [self._name(r) for r in records],
            *self._times(records),
            pid=self.pid,
            tid=[r.thread_id for r in records],
            correlation=[r.correlation_id.internal for r in records] if kind == Kind.CALL else -1,
        )

    def _operation(self, record: _Record) -> str:
        kinds = self.process.strings.buffer_records
        operations = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        return (
            operations[record.operation] if 0 <= record.operation < len(operations) else "unknown"
        )

    def _name(self, record: _Record) -> str:
        """A marker's message, or the function that was called."""
        return self.texts.get(str(record.correlation_id.internal)) or self._operation(record)


def block_text(size: Sequence[int]) -> str:
    """The size of a work group, as other tracers write it."""
    return "[" + ", ".join(map(str, size)) + "]"


def grid_text(items: Sequence[int], per_block: Sequence[int]) -> str:
    """A launch's grid in blocks, as other tracers give it; ROCm's count work items."""
    return block_text([-(-n // max(per, 1)) for n, per in zip(items, per_block, strict=True)])


def copy_name(operation: str) -> str:
    """The name Kineto would give a copy."""
    match = _COPY.search(operation)
    return f"Memcpy {match[1][0]}to{match[2][0]}" if match else f"Memcpy {operation}"
