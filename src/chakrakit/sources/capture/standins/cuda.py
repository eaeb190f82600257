"""torch.cuda on a machine that has none: the host stands in, and "cuda" is redirected to it.

Streams and events say what is issued where and what waits for what; memory statistics are those of the
captured program. torch.accelerator, which names no device, answers as torch.cuda does (`install`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from chakrakit.sources.capture.observing import ProgramStreams, Storages
from chakrakit.sources.capture.recording import (
    FIRST_STREAM,
    CaptureError,
    Patches,
    asking_line,
    in_pytorch,
)

_SAME = (
    "is_available", "device_count", "current_stream", "synchronize", "empty_cache",
    "get_device_capability", "memory_allocated", "memory_reserved", "memory_stats",
    "max_memory_allocated", "max_memory_reserved", "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
)  # fmt: skip
_OTHER = {
    "current_device_index": "current_device",
    "current_device_idx": "current_device",
    "set_device_index": "set_device",
    "set_device_idx": "set_device",
    "device_index": "device",
    "get_memory_info": "mem_get_info",
}


def install(patches: Patches) -> None:
    """Replace torch.accelerator's functions by those of torch.cuda, which must have been replaced before."""
    accelerator = torch.accelerator
    for name, of_cuda in {**{n: n for n in _SAME}, **_OTHER}.items():
        if hasattr(accelerator, name):
            patches.set(accelerator, name, getattr(torch.cuda, of_cuda))
    patches.set(accelerator, "current_accelerator", _current)
    patches.set(torch._C, "_get_accelerator", _current)


def _current(*_: Any, **__: Any) -> torch.device:
    return torch.device("cuda")


_NOTHING = (
    "synchronize",
    "empty_cache",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_accumulated_memory_stats",
    "ipc_collect",
    "init",
    "_lazy_init",
    "set_rng_state",
    "set_rng_state_all",
    "reset_max_memory_cached",
    "seed",
    "seed_all",
    "set_sync_debug_mode",
    "set_per_process_memory_fraction",
)


_WORKSPACE, _HOPPER_WORKSPACE = (4096 * 2 + 16 * 8) << 10, (4096 * 8) << 10
"""Bytes of `getChosenWorkspaceSize` in PyTorch's CUDABlas.cpp, before Hopper and from it on."""


def workspace_of(device: str) -> int:
    """Bytes that PyTorch keeps for cuBLAS, for each thread that uses it, on a GPU of NVIDIA's."""
    return _HOPPER_WORKSPACE if device.lstrip("g").startswith(("h", "b")) else _WORKSPACE


class Chip(NamedTuple):
    """What PyTorch says of a GPU: its compute capability and how many multiprocessors it has."""

    capability: tuple[int, int]
    multiprocessors: int


_CHIPS = {
    "v100": Chip((7, 0), 80),
    "a100": Chip((8, 0), 108),
    "l40s": Chip((8, 9), 142),
    "rtx-4090": Chip((8, 9), 128),
    "h": Chip((9, 0), 132),
    "b200": Chip((10, 0), 148),
    "b300": Chip((10, 3), 148),
    "rtx-pro-6000": Chip((12, 0), 188),
}
"""As published, by how names begin, a Grace's G aside; SXM boards where there are others. Only the H200's was
read from a device."""


def chip_of(device: str) -> Chip:
    """The chip of a named device; one that is not listed answers as an H100 does."""
    name = device if device.startswith("gtx") else device.removeprefix("g")
    return next((chip for begin, chip in _CHIPS.items() if name.startswith(begin)), _CHIPS["h"])


class Stream:
    """A stream of the program: nothing runs, and what is issued on it is known."""

    streams: ProgramStreams
    """Of the program that is captured (`_following`)."""
    event_type: type[Event]
    known: WeakValueDictionary[int, Stream]
    """All streams of the program by number."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device, self.priority = torch.device("cpu"), priority
        self.number = self.streams.new()
        self.known[self.number] = self
        self.stream_id = self.cuda_stream = id(self)
        self._left: list[int] = []

    def record_event(self, event: Any = None) -> Any:
        """An event after what was issued on it so far."""
        event = self.event_type() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """What is issued next on it comes after the event."""
        self.streams.wait(self.number, getattr(event, "after", -1))

    def wait_stream(self, stream: Any) -> None:
        """What is issued next on it comes after what was issued on the other."""
        self.streams.wait(self.number, self.streams.last(getattr(stream, "number", FIRST_STREAM)))

    def synchronize(self) -> None:
        """The host goes on: what it waits for is not followed."""

    def query(self) -> bool:
        """True, since nothing is running."""
        return True

    def is_capturing(self) -> bool:
        """No graph is being recorded."""
        return False

    def __enter__(self) -> Stream:
        self._left.append(self.streams.current)
        self.streams.current = self.number
        return self

    def __exit__(self, *_: object) -> None:
        self.streams.current = self._left.pop()


class Event:
    """An event: the operator after which it happens."""

    streams: ProgramStreams
    after = -1

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        """Happen after what was issued so far on a stream, by default the current one."""
        number = self.streams.current if stream is None else stream.number
        self.after = self.streams.last(number)

    def wait(self, stream: Any = None) -> None:
        """Let what is issued next on a stream come after it."""
        number = self.streams.current if stream is None else stream.number
        self.streams.wait(number, self.after)

    def synchronize(self) -> None:
        """The host goes on: what it waits for is not followed."""

    def query(self) -> bool:
        """True: the event has happened."""
        return True

    def elapsed_time(self, *_: Any) -> float:
        """1.0 ms, so that scripts can divide by it; nothing is measured."""
        return 1.0


def _following(streams: ProgramStreams) -> tuple[type[Stream], type[Event]]:
    """The classes of a program's streams and events."""
    event = type("Event", (Event,), {"streams": streams})
    known = WeakValueDictionary[int, Stream]()
    own = {"streams": streams, "event_type": event, "known": known}
    return type("Stream", (Stream,), own), event


class HandmadeGraph:
    """A CUDA graph that a program makes itself, which a capture cannot follow."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise CaptureError(
            f"{asking_line()}: a CUDA graph made by hand is replayed without its operators being called, so "
            "that they cannot be captured; call the function itself where the program is captured (simulate "
            "--no-host leaves out what launches cost), or let torch.compile make the graphs"
        )


def is_cuda(device: Any) -> bool:
    """Whether a device, in any of its spellings, is a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return (isinstance(device, str) and device.partition(":")[0] == "cuda") or type(device) is int


class Redirect(TorchFunctionMode):
    """Sends what asks for a GPU to the host, and marks it as being on the device."""

    def __init__(self, storages: Storages) -> None:
        super().__init__()
        self.storages = storages

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.backward:
            with self:  # functions of the script run in it
                return torch.autograd.backward(*_of_backward(*args, **kwargs))
        if func is torch.Tensor.pin_memory:
            return torch.ops.aten._pin_memory.default(args[0])
        pinned = bool(kwargs.pop("pin_memory", False))
        target = _target(func, args, kwargs, self.storages)
        if target is None or (target == "cpu" and func not in _MOVES):
            made = func(*args, **kwargs)
            if pinned or (not types and not in_pytorch(sys._getframe(1))):
                self._kept(made, pinned)
            return made
        if func in _MOVES:
            return self._moved(target, args, kwargs)
        if target == "cuda":
            return self._made(func, args, {**kwargs, "device": "cpu"})
        return func(*args, **kwargs)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A tensor made on the device."""
        self.storages.only_device()
        before, self.storages.arriving = self.storages.arriving, True
        try:
            out = func(*args, **kwargs)
        finally:
            self.storages.arriving = before
        return self._marked(out)

    def _moved(self, target: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """A tensor copied to where it is wanted, unless it is there already and as wanted."""
        tensor = args[0]
        wanted = _wanted(args[1:], kwargs)
        local = getattr(tensor, "_local_tensor", tensor)
        there = self.storages.holds(local) if target == "cuda" else not self.storages.holds(local)
        if there or local.device.type == "meta":
            return torch.Tensor.to(tensor, "cpu", **wanted)
        if target == "cuda":
            return self._made(_copy, (tensor,), wanted)
        if in_pytorch(sys._getframe(2)):
            return torch.Tensor.to(tensor, "cpu", **wanted)  # for it the host is the device
        return left(self.storages, tensor, **wanted)

    def _kept(self, made: Any, pinned: bool) -> None:
        """What the program made on the host stays there."""
        if (
            type(made) is FakeTensor
            and not self.storages.arriving
            and not self.storages.holds(made)
        ):
            self.storages.keep_on_host(made, pinned=pinned)

    def _marked(self, tensor: Any) -> Any:
        self.storages.only_device()
        local = getattr(tensor, "_local_tensor", tensor)
        if isinstance(local, torch.Tensor):
            self.storages.mark(self.storages.number(local))
        return tensor


def left(storages: Storages, tensor: Any, pinned: bool = False, **wanted: Any) -> Any:
    """A tensor of the device copied to the host."""
    wanted.pop("copy", None)
    storages.leaving, storages.leaving_to_pinned = True, pinned
    try:
        copied = _copy(tensor, device=torch.device("cpu"), **wanted)
    finally:
        storages.leaving = storages.leaving_to_pinned = False
    local = getattr(copied, "_local_tensor", copied)
    if isinstance(local, torch.Tensor):
        storages.keep_on_host(local, pinned=pinned)
    return copied


def arrived(storages: Storages, tensor: Any) -> Any:
    """A tensor of the host copied to the device."""
    before, storages.arriving = storages.arriving, True
    try:
        return _copy(tensor)
    finally:
        storages.arriving = before


_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)


def _copy(tensor: Any, **wanted: Any) -> Any:
    wanted.pop("copy", None)
    return torch.ops.aten._to_copy.default(tensor, **wanted)


def _of_backward(
    tensor: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> tuple[Any, ...]:
    """The arguments of `torch.autograd.backward` for those of `Tensor.backward`."""
    return tensor, gradient, retain_graph, create_graph, None, inputs


def _target(func: Any, args: Any, kwargs: dict[str, Any], storages: Storages) -> str | None:
    """`cuda` or `cpu` where a call names one of them for its result, else None."""
    if func is torch.Tensor.cuda:
        return "cuda"
    if func is torch.Tensor.cpu:
        return "cpu"
    named = kwargs.get("device")
    if func is torch.Tensor.to:
        other = kwargs.get("other", args[1] if len(args) > 1 else None)
        if isinstance(other, torch.Tensor):
            named = "cuda" if storages.holds(getattr(other, "_local_tensor", other)) else "cpu"
        elif len(args) > 1 and isinstance(args[1], (str, int, torch.device)):
            named = args[1]
    if named is None:
        return None
    return "cuda" if is_cuda(named) else "cpu" if str(named).partition(":")[0] == "cpu" else None


def _wanted(args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a call of `to` asks for besides the device, by name."""
    wanted = {k: v for k, v in kwargs.items() if k not in ("device", "other", "tensor")}
    other = kwargs.get("other", args[0] if args else None)
    if isinstance(other, torch.Tensor):
        wanted.setdefault("dtype", other.dtype)
    dtypes = [a for a in args if isinstance(a, torch.dtype)]
    flags = [a for a in args if type(a) is bool]
    wanted.update({"dtype": dtypes[0]} if dtypes else {})
    wanted.update(zip(("non_blocking", "copy"), flags, strict=False))
    return {k: v for k, v in wanted.items() if v is not None}


def show_device(patches: Patches, storages: Storages, index: int) -> None:
    """Let tensors on the device say so when scripts and libraries ask where they are."""
    device = torch.device("cuda", index)
    plain = FakeTensor.device.fget

    def shown(tensor: Any, frame: Any) -> bool:
        if tensor.fake_mode.in_kernel_invocation or in_pytorch(frame):
            return False
        return storages.holds(tensor)

    def where(tensor: Any) -> torch.device:
        return device if shown(tensor, sys._getframe(1)) else plain(tensor)

    answers: dict[str, Callable[[Any], Any]] = {
        "device": where,
        "is_cuda": lambda t: shown(t, sys._getframe(1)),
        "is_cpu": lambda t: not shown(t, sys._getframe(1)) and plain(t).type == "cpu",
    }
    for name, answer in answers.items():
        patches.set(FakeTensor, name, property(answer))
    patches.set(FakeTensor, "get_device", lambda t: index if shown(t, sys._getframe(1)) else -1)


class Cuda:
    """torch.cuda as the script sees it. `present` is the name of the GPUs it is shown, "" for none."""

    def __init__(
        self,
        patches: Patches,
        storages: Storages,
        streams: ProgramStreams,
        present: str,
        local_rank: int,
        count: int,
        memory: int,
    ) -> None:
        self.patches, self.storages, self.present = patches, storages, present
        self.streams = streams
        self.local_rank, self.count, self.memory = local_rank, count, memory

    def install(self) -> None:
        """Replace torch.cuda's functions."""
        cuda, patches = torch.cuda, self.patches
        for name in _NOTHING:
            patches.stub(cuda, name, f"torch.cuda.{name}")
        for name in (
            "manual_seed",
            "manual_seed_all",
        ):  # torch.manual_seed calls them, listed or not
            patches.set(cuda, name, lambda *_, **__: None)
        present, chip = bool(self.present), chip_of(self.present)
        answers: dict[str, Any] = {
            "is_available": present,
            "device_count": self.count if present else 0,
            "is_initialized": present,
            "current_device": self.local_rank,
            "is_bf16_supported": True,
            "get_device_name": self.present.upper() or "GPU",
            "get_device_capability": chip.capability,
            "get_device_properties": self._properties(),
            "get_arch_list": ["sm_{}{}".format(*chip.capability)],
            "utilization": 0,
            "memory_usage": 0,
            "temperature": 30,
            "power_draw": 0,
            "clock_rate": 0,
            "get_rng_state": torch.Generator().get_state(),
            "get_rng_state_all": [torch.Generator().get_state()] * self.count,
            "is_current_stream_capturing": False,
        }
        for name, answer in answers.items():
            for owner in (cuda, *([cuda.random] if "rng" in name else [])):
                patches.set(owner, name, lambda *_, answer=answer, **__: answer)
        patches.set(cuda, "default_generators", tuple(torch.Generator() for _ in range(self.count)))
        patches.set(cuda, "set_device", self._set_device)
        patches.wrap(torch._C._nn, "_parse_to", _parsed)
        show_device(patches, self.storages, self.local_rank)
        self._install_memory()
        self._install_streams()
        for name in ("device", "device_of"):
            patches.set(cuda, name, _inside)
        patches.set(torch.Tensor, "record_stream", lambda *_: None)
        patches.set(cuda, "CUDAGraph", HandmadeGraph)
        patches.set(cuda, "graph_pool_handle", lambda: (0, 0))
        patches.set(cuda, "make_graphed_callables", self._graphed)
        storages = self.storages
        patches.set(
            torch.Tensor, "is_pinned", lambda t, *_, **__: storages.is_pinned(storages.number(t))
        )
        for name in ("range_push", "range_pop", "mark"):
            patches.set(cuda.nvtx, name, lambda *_, **__: None)
        patches.set(cuda.nvtx, "range", _inside)

    def _install_streams(self) -> None:
        """Also of the host, which stands in for the device: FSDP asks it for the streams of its tensors."""
        stream_type, event_type = _following(self.streams)
        first = stream_type()

        def select(stream: Any) -> None:
            self.streams.current = stream.number

        answers: dict[str, Any] = {
            "Stream": stream_type,
            "Event": event_type,
            "current_stream": lambda *_, **__: first.known[self.streams.current],
            "default_stream": lambda *_, **__: first,
            "set_stream": select,
            "stream": _issuing,
            "StreamContext": _issuing,
        }
        for owner in (torch.cuda, torch.cpu):
            for name, answer in answers.items():
                if hasattr(owner, name):
                    self.patches.set(owner, name, answer)

    def _install_memory(self) -> None:
        storages = self.storages
        in_use = ("memory_allocated", "memory_reserved", "memory_cached", "device_memory_used")
        for name in in_use:
            self.patches.set(torch.cuda, name, lambda *_, **__: storages.live)
        for name in ("max_memory_allocated", "max_memory_reserved", "max_memory_cached"):
            self.patches.set(torch.cuda, name, lambda *_, **__: storages.peak)
        self.patches.set(
            torch.cuda, "mem_get_info", lambda *_, **__: (self.memory - storages.live, self.memory)
        )
        self.patches.set(torch.cuda, "memory_summary", lambda *_, **__: "")
        self.patches.set(torch.cuda, "memory_stats", lambda *_, **__: _Stats(self._stats()))
        for name in ("_record_memory_history", "_dump_snapshot"):
            self.patches.stub(torch.cuda.memory, name, f"torch.cuda.memory.{name}")

    def _stats(self) -> dict[str, int]:
        live, peak = self.storages.live, self.storages.peak
        return {
            f"{figure}.all.{when}": value
            for figure in ("allocated_bytes", "reserved_bytes", "active_bytes")
            for when, value in (("current", live), ("peak", peak))
        }

    def _graphed(self, callables: Any, *_: Any, **__: Any) -> Any:
        """The callables themselves: what a graph of them would launch."""
        self.patches.note("torch.cuda.make_graphed_callables: called without graphs")
        return callables

    def _set_device(self, device: Any) -> None:
        self.patches.note("torch.cuda.set_device")

    def _properties(self) -> SimpleNamespace:
        chip = chip_of(self.present)
        return SimpleNamespace(
            name=self.present.upper() or "GPU",
            total_memory=self.memory,
            major=chip.capability[0],
            minor=chip.capability[1],
            multi_processor_count=chip.multiprocessors,
            warp_size=32,
            gcnArchName="",
        )


def _parsed(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`Module.to(0)`: a bare number names an accelerator, which PyTorch would look for."""

    def parse(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is int:
            args = (torch.device("cuda", args[0]), *args[1:])
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        return plain(*args, **kwargs)

    return parse


class _Stats(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0


@contextmanager
def _inside(*_: Any, **__: Any) -> Iterator[None]:
    yield


@contextmanager
def _issuing(stream: Any) -> Iterator[None]:
    """What is issued inside is issued on this stream; None changes nothing."""
    with nullcontext() if stream is None else stream:
        yield
