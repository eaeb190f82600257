"""JAX's and XLA's profiles (`xplane.pb`): each device of each file as the columns that are linked.

A profile holds planes (hosts and devices), these lines (threads and streams), and these events.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.operators import HLO_COLLECTIVES, find_type
from chakrakit.sources.activities import Activities
from chakrakit.sources.pytorch.read import Kind, Kineto, whole
from chakrakit.sources.xla.hlo import Instruction, Module
from chakrakit.sources.xla.hlo_proto import WireMessage
from chakrakit.sources.xla.hlo_read import parse_hlo

_PLACES = (b"/host:", b"/device:", b"Task Environment", b"/task:")


def is_xplane(head: bytes) -> bool:
    """Whether a file's first bytes are those of a profile: planes of hosts and devices."""
    return head[:1] == b"\x0a" and any(place in head[:4096] for place in _PLACES)


@dataclass(frozen=True)
class ProfileEvent:
    """One event in ns on the profile's clock; `stats` by name."""

    name: str
    start: int
    end: int
    stats: Mapping[str, Any]


class Plane:
    """A host or a device, or the profile's own data."""

    def __init__(self, message: WireMessage) -> None:
        self._message = message
        self.name = message.text(2)
        self._stat_names = {m.integer(1): m.text(2) for m in _values(message.messages(5))}
        self._events = {m.integer(1): m for m in _values(message.messages(4))}

    @cached_property
    def stats(self) -> dict[str, Any]:
        """Stats of the plane itself."""
        return self._stats(self._message.messages(6))

    @cached_property
    def metadata(self) -> list[tuple[str, dict[str, Any]]]:
        """Kinds of events with their stats; profiles keep HLO modules there."""
        return [(m.text(2), self._stats(m.messages(5))) for m in self._events.values()]

    def lines(self) -> Iterator[tuple[str, int, list[ProfileEvent]]]:
        """(name, number, events) of each thread or stream."""
        for line in self._message.messages(3):
            base = line.integer(3) * 1000
            events = [self._event(m, base) for m in line.messages(4)]
            yield line.text(11) or line.text(2), line.integer(1), events

    def _event(self, message: WireMessage, base_ps: int) -> ProfileEvent:
        kind = self._events.get(message.integer(1))
        begin = base_ps + _signed(message.integer(2))
        end = begin + max(_signed(message.integer(3)), 0)
        name = (kind.text(4) or kind.text(2)) if kind is not None else ""
        shared = self._stats(kind.messages(5)) if kind is not None else {}
        return ProfileEvent(
            name, begin // 1000, end // 1000, shared | self._stats(message.messages(4))
        )

    def _stats(self, messages: list[WireMessage]) -> dict[str, Any]:
        return {self._stat_names.get(m.integer(1), ""): self._value(m) for m in messages}

    def _value(self, stat: WireMessage) -> Any:
        if 7 in stat:  # a reference to a text that many share
            return self._stat_names.get(stat.integer(7), "")
        if 5 in stat:
            return stat.text(5)
        if stat.raw(6):
            return stat.raw(6)[-1]
        if 2 in stat and stat.raw(2):
            return struct.unpack("<d", stat.raw(2)[-1])[0]
        return _signed(stat.integer(4)) if 4 in stat else stat.integer(3)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _values(entries: list[WireMessage]) -> Iterator[WireMessage]:
    """The values of a map."""
    for entry in entries:
        value = entry.message(2)
        if value is not None:
            yield value


def read_planes(data: bytes, path: str = "") -> list[Plane]:
    """The planes of a profile's bytes (uncompressed)."""
    try:
        return [Plane(m) for m in WireMessage(data).messages(1)]
    except (FormatError, struct.error, RecursionError) as error:
        raise FormatError(
            f"not a profile of XLA: {error}; give the xplane.pb that jax.profiler wrote",
            path=path or None,
        ) from None


_DEVICE = re.compile(r"^/device:(?:GPU|TPU|CUSTOM)[^:]*:(\d{1,9})(?!\d)")
_STREAM = re.compile(r"^Stream #(\d{1,18})(?!\d)")
_OPERATIONS = ("XLA Ops", "Async XLA Ops")
_SIZE = re.compile(r"(?:num_bytes|size):(\d+)")
_GRID = re.compile(r"grid:(\d+),(\d+),(\d+) block:(\d+),(\d+),(\d+)")


def read_devices(data: bytes, path: str = "", modules: Iterable[Module] = ()) -> dict[int, Kineto]:
    """Each device's events by the device's number; `modules` are used where the profile holds none."""
    planes = read_planes(data, path)
    instructions = _Modules(planes, modules)
    work = _device_events(planes)
    if not work:
        raise FormatError(
            "this profile holds no operation of a device; record while the program runs, and on a GPU "
            "without command buffers (XLA_FLAGS=--xla_gpu_enable_command_buffer=)",
            path=path or None,
        )
    base = _base(planes)
    hosts = _host_lines(planes, work)
    main = _main_module(work)
    return {
        device: _Device(device, lines, hosts.get(device, []), instructions, path).kineto(
            base, main, planes
        )
        for device, lines in sorted(work.items())
    }


Lines = list[tuple[str, int, list[ProfileEvent]]]


def _device_events(planes: list[Plane]) -> dict[int, Lines]:
    """The lines of each device: streams of GPUs, operations of TPUs, or HLO operations in threads of CPUs."""
    out: dict[int, Lines] = {}
    for plane in planes:
        match = _DEVICE.match(plane.name)
        if match:
            lines = [x for x in plane.lines() if x[2]]
            if any(_is_activity(name) for name, _, _ in lines):
                out[int(match[1])] = lines
    if out:
        return out
    for plane in planes:
        if plane.name.startswith("/host:CPU"):
            for number, (name, _, events) in enumerate(plane.lines()):
                for device, mine in _by_ordinal(events).items():
                    out.setdefault(device, []).append((f"Stream #{number} {name}", number, mine))
    return out


def _is_activity(line: str) -> bool:
    return _STREAM.match(line) is not None or line in _OPERATIONS


def _by_ordinal(events: list[ProfileEvent]) -> dict[int, list[ProfileEvent]]:
    out: dict[int, list[ProfileEvent]] = {}
    for event in events:
        if "hlo_op" in event.stats and event.end > event.start:
            out.setdefault(_number(event, "device_ordinal", 0), []).append(event)
    return out


def _base(planes: list[Plane]) -> int:
    """When the profile began, in ns since 1970, which is 0 on its clock."""
    stats = next((p.stats for p in planes if p.name.startswith("Task Environment")), {})
    start = stats.get("profile_start_time", 0)
    return int(start) if isinstance(start, int) else 0


def _host_lines(planes: list[Plane], work: Mapping[int, Lines]) -> dict[int, Lines]:
    """Threads of the host by the device they launch on; those that launch nothing go to the first."""
    owner = {
        _number(e, "correlation_id"): device
        for device, lines in work.items()
        for _, _, events in lines
        for e in events
        if "correlation_id" in e.stats
    }
    out: dict[int, Lines] = {}
    for plane in planes:
        if plane.name.startswith("/host:CPU"):
            for line in plane.lines():
                launches = Counter(
                    owner[number]
                    for e in line[2]
                    if (number := _number(e, "correlation_id")) in owner
                )
                device = launches.most_common(1)[0][0] if launches else min(work)
                out.setdefault(device, []).append(line)
    return out


def _main_module(work: Mapping[int, Lines]) -> str:
    """The module with the most device time."""
    time: Counter[str] = Counter()
    for lines in work.values():
        for name, _, events in lines:
            if _is_activity(name):
                for e in events:
                    time[str(e.stats.get("hlo_module", ""))] += e.end - e.start
    time.pop("", None)
    return time.most_common(1)[0][0] if time else ""


class _Modules:
    """Instructions by module and name, from the profile itself or from files beside it."""

    def __init__(self, planes: list[Plane], modules: Iterable[Module]) -> None:
        self._raw: dict[str, bytes] = {}
        for plane in planes:
            if plane.name.startswith("/host:metadata"):
                for name, stats in plane.metadata:
                    proto = next((v for v in stats.values() if isinstance(v, bytes)), None)
                    if proto:
                        self._raw[name.partition("(")[0]] = proto
        self._instructions: dict[str, dict[str, Instruction]] = {
            m.name: _instructions(m) for m in modules if m.name not in self._raw
        }

    def instruction(self, module: str, name: str) -> Instruction | None:
        """The instruction of a module by name; None if it is not known."""
        if module not in self._instructions:
            self._instructions[module] = self._parsed(module)
        return self._instructions[module].get(name)

    def _parsed(self, module: str) -> dict[str, Instruction]:
        try:
            return _instructions(parse_hlo(self._raw[module])) if module in self._raw else {}
        except FormatError:
            return {}  # the times are worth having without it


def _instructions(module: Module) -> dict[str, Instruction]:
    return {i.name: i for c in module.computations.values() for i in c.instructions}


class _Device:
    """Turns one device's lines and its host's threads into columns."""

    def __init__(
        self, device: int, lines: Lines, hosts: Lines, modules: _Modules, path: str
    ) -> None:
        self.device, self.lines, self.hosts, self.modules = device, lines, hosts, modules
        self.activities = Activities(path)
        self.groups: dict[str, list[int]] = {}
        self.step_rows: list[tuple[int, ProfileEvent]] = []

    def kineto(self, base: int, main: str, planes: list[Plane]) -> Kineto:
        for number, (name, _, events) in enumerate(self.hosts):
            self._thread(number, name, events)
        for name, number, events in self.lines:
            if _is_activity(name):
                match = _STREAM.match(name)
                self._stream(int(match[1]) if match else number, events)
            else:
                self.activities.leave_out(name or "line without a name", len(events))
        config = [{"pg_name": n, "ranks": r} for n, r in self.groups.items()]
        kineto = self.activities.kineto(
            base,
            host_name="profile",
            distributed={"pg_config": config} if config else {},
            devices=[{"id": self.device, "name": self._device_name(planes)}],
        )
        return replace(kineto, steps=self._steps(len(kineto), main))

    def _device_name(self, planes: list[Plane]) -> str:
        for plane in planes:
            if plane.name.endswith(f":{self.device}"):
                return str(
                    plane.stats.get("gpu_device_name") or plane.stats.get("device_type_string", "")
                )
        return "cpu"

    def _thread(self, number: int, name: str, events: list[ProfileEvent]) -> None:
        """Add a thread's calls into the device's runtime, its ranges and its Python frames."""
        ranges = [e for e in events if (e.end > e.start and "hlo_op" not in e.stats) or _is_call(e)]
        self.activities.leave_out(
            "host events without duration", sum(e.end <= e.start for e in events)
        )
        kinds = np.array([_host_kind(e) for e in ranges], np.int8)
        self.activities.add(
            kinds,
            [e.name for e in ranges],
            [e.start for e in ranges],
            [e.end for e in ranges],
            pid=0,
            tid=number,
            correlation=[_number(e, "correlation_id") for e in ranges],
        )

    def _stream(self, stream: int, events: list[ProfileEvent]) -> None:
        first = self.activities.add(
            np.array([_device_kind(e) for e in events], np.int8),
            [e.name for e in events],
            [e.start for e in events],
            [e.end for e in events],
            pid=self.device,
            tid=stream,
            device=self.device,
            stream=stream,
            correlation=[_number(e, "correlation_id") for e in events],
            bytes=[_bytes(e) for e in events],
            grid=[_launched(e, 0) for e in events],
            block=[_launched(e, 3) for e in events],
        )
        for i, event in enumerate(events):
            self.step_rows.append((first + i, event))
            self._say(first + i, event)

    def _say(self, row: int, event: ProfileEvent) -> None:
        op = str(event.stats.get("hlo_op", "")) or event.name
        module = str(event.stats.get("hlo_module", ""))
        if "hlo_op" in event.stats:
            self.activities.say(row, "hlo_op", op)
        instruction = self.modules.instruction(module, op)
        if instruction is None:
            return
        if instruction.op_name:
            self.activities.say(row, "hlo_name", instruction.op_name)
        operands = [self.modules.instruction(module, o) for o in instruction.operands]
        shapes = [o.shape.first for o in operands if o is not None]
        if shapes:
            self.activities.say(row, "hlo_shapes", str([list(s.dims) for s in shapes]))
            self.activities.say(row, "hlo_types", str([s.dtype for s in shapes]).replace("'", '"'))
        self._say_collective(row, instruction, shapes[0] if shapes else None)

    def _say_collective(self, row: int, instruction: Instruction, shape: Any) -> None:
        """Note group and size of a collective; the end of an asynchronous one has none."""
        opcode = instruction.opcode.removesuffix("-start")
        if opcode not in HLO_COLLECTIVES:
            return
        self.activities.say(row, "Collective name", HLO_COLLECTIVES[opcode].lower())
        mine = next((g for g in instruction.groups if self.device in g), ())
        if mine:
            name = ",".join(map(str, mine))
            self.groups[name] = list(mine)
            self.activities.say(row, "Process Group Name", name)
        if shape is not None:
            self.activities.say(row, "dtype", _scalar_type(shape.dtype))
            self.activities.say(row, "In msg nelems", int(np.prod(shape.dims, dtype=np.int64)))

    def _steps(self, length: int, main: str) -> I64:
        """A step is one execution of the main module.

        CPUs and TPUs number executions. GPUs do not: there, one begins with each start of the first
        instruction that runs as seldom as any.
        """
        steps = np.full(length, -1, np.int64)
        mine = sorted(
            ((row, e) for row, e in self.step_rows if e.stats.get("hlo_module") == main),
            key=lambda pair: pair[1].start,
        )
        if not main or not mine:
            return steps
        if all("run_id" in e.stats for _, e in mine):
            order = {
                run: i for i, run in enumerate(dict.fromkeys(e.stats["run_id"] for _, e in mine))
            }
            for row, e in mine:
                steps[row] = order[e.stats["run_id"]]
            return steps
        count = Counter((e.stats.get("hlo_op"), e.name) for _, e in mine)
        fewest = min(count.values())
        marker = next(k for _, e in mine if count[k := (e.stats.get("hlo_op"), e.name)] == fewest)
        step = -1
        for row, e in mine:
            step += (e.stats.get("hlo_op"), e.name) == marker
            steps[row] = step
        return steps


def _is_call(event: ProfileEvent) -> bool:
    return "correlation_id" in event.stats and event.end > event.start


def _host_kind(event: ProfileEvent) -> Kind:
    if _is_call(event):
        return Kind.CALL
    return Kind.PYTHON if event.name.startswith("$") else Kind.ANNOTATION


def _device_kind(event: ProfileEvent) -> Kind:
    details = {k.lower() for k in event.stats}
    if "memcpy_details" in details:
        return Kind.MEMCPY
    return Kind.MEMSET if "memset_details" in details else Kind.KERNEL


def _bytes(event: ProfileEvent) -> int:
    for key, value in event.stats.items():
        if key.lower() in ("memcpy_details", "memset_details"):
            match = _SIZE.search(str(value))
            size = whole(match[1]) if match else None
            return -1 if size is None else size
    return -1


def _number(event: ProfileEvent, name: str, missing: int = -1) -> int:
    """A stat that should be a whole number; `missing` where it is not there or is something else."""
    number = whole(event.stats.get(name))
    return missing if number is None else number


def _launched(event: ProfileEvent, first: int) -> str:
    match = _GRID.search(str(event.stats.get("kernel_details", "")))
    return f"[{', '.join(match.groups()[first : first + 3])}]" if match else ""


def _scalar_type(dtype: str) -> str:
    """XLA's element type as PyTorch records that of a collective; its short name where PyTorch has none."""
    element = find_type(dtype)
    return dtype if element is None else (element.scalar or element.name).lower()
