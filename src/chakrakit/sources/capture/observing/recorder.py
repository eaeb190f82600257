"""Recorder: sees every operator that PyTorch dispatches and writes it down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from chakrakit.operators import SPACES, by_elements, is_silent
from chakrakit.sources.capture.observing import communication, shortcuts
from chakrakit.sources.capture.observing.known_values import KnownValues
from chakrakit.sources.capture.observing.signatures import Signatures
from chakrakit.sources.capture.observing.storages import Storages
from chakrakit.sources.capture.observing.whereabouts import BACKWARD, Whereabouts
from chakrakit.sources.capture.recording import Comm, NeedsValue, Op, script_line

# Lists of sharded tensors taken apart here: element by element there is nothing to redistribute.
#
# DTensor works out a sharding for every element of a list, which takes seconds for an optimizer's.


def fits(func: Any, args: Any) -> bool:
    """Whether an operator treats lists of sharded tensors element by element, all cut the same."""
    if not by_elements(getattr(getattr(func, "_schema", None), "name", "")):
        return False
    lists = [
        a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)
    ]
    first = lists[0] if lists else []
    return all(
        not isinstance(t, DTensor) or (isinstance(f, DTensor) and t.placements == f.placements)
        for found in lists
        if len(found) == len(first)
        for f, t in zip(first, found, strict=True)
    )


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operator on the local shards; results are cut as the first list is."""
    out = func(*[_local(a) for a in args], **{k: _local(v) for k, v in kwargs.items()})
    if out is None:
        return None
    if getattr(func, "_schema", None) is not None and func._schema.name.endswith("_"):
        return args[0]
    return [
        DTensor(made, like._spec, requires_grad=False) if isinstance(like, DTensor) else made
        for made, like in zip(out, args[0], strict=True)
    ]


def _local(value: Any) -> Any:
    if isinstance(value, DTensor):
        return value._local_tensor
    return [_local(v) for v in value] if isinstance(value, (list, tuple)) else value


_PLAIN = {torch.Tensor, FakeTensor, torch.nn.Parameter, torch.nn.Buffer}
_NOISE = ("prim::device", "prim::layout")
_PROFILER = ("profiler::",)


_ADD, _ADD_IN_PLACE = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor
_IN_BACKWARD = {"aten::scatter": "aten::scatter_", "aten::index_put": "aten::_index_put_impl_"}
"""What autograd calls for plain tensors where it calls something else for tensors like fake ones."""


class Recorder(TorchDispatchMode):
    """Records while `recording`; storages and known values are followed all the time.

    Enter it after the fake-tensor mode: it is asked first, and what fake tensors do inside an operator is
    not seen. Operators on subclasses (DTensor) are left to them and seen as what they come down to.
    """

    def __init__(self, where: Whereabouts, storages: Storages, known: KnownValues) -> None:
        super().__init__()
        self.where, self.storages, self.known = where, storages, known
        self.signatures = Signatures()
        self.ops: list[Op] = []
        self._freed_before = 0
        self.comms: list[Comm] = []
        self.recording = False
        self.last_comm = -1
        """The operator of the last communication; -1 while not recording."""
        self._skip: dict[Any, bool] = {}
        self._mutates: dict[Any, tuple[int, ...]] = {}
        self._plain: dict[tuple[type, ...], bool] = {}
        self._writer: dict[int, int] = {}
        self._results = shortcuts.Results()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the guard costs as much as an operator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is shortcuts.DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device
        skip = self._skip.get(func)
        if skip is None:
            skip = self._skip[func] = self._is_noise(func)
        if skip:
            return self._run(func, args, kwargs)
        plain = self._plain.get(types)
        if plain is None:
            plain = self._plain[types] = all(t in _PLAIN for t in types)
        if not plain:
            if not fits(func, args):
                return NotImplemented
            with self:
                return run(func, args, kwargs)
        if func is _ADD and self._accumulates(args):
            func = _ADD_IN_PLACE
        out = self._run(func, args, kwargs)
        self._note(func, args, kwargs, out)
        return out

    def _accumulates(self, args: Any) -> bool:
        """Whether autograd adds a gradient to one that nobody else has.

        It then adds in place, except for tensors like fake ones. The storage is counted once for its
        tensor and once for looking at it.
        """
        if (
            self.where.phase != BACKWARD
            or sys._getframe(2).f_code.co_name != "_engine_run_backward"
        ):
            return False
        if (
            len(args) != 2
            or not isinstance(args[1], torch.Tensor)
            or args[0].shape != args[1].shape
        ):
            return False
        return bool(torch._C._storage_Use_Count(args[0].untyped_storage()._cdata) <= 2)

    def as_one(self, func: Any, args: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Record an operator that is not run: `make` gives its results."""
        with _disable_current_modes():
            out = make()
        self._note(func, args, {}, out)
        return out

    def _is_noise(self, func: Any) -> bool:
        name = self.signatures.name(func)
        return name in _NOISE or is_silent(name) or name.startswith(_PROFILER)

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is torch.ops.aten.bincount.default and len(args) + len(kwargs) > 1:
            size = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
            if size:
                return args[0].new_empty((size,), dtype=torch.int64)
        if func in shortcuts.VIEWS and shortcuts.fits(args):
            return shortcuts.view(func, args, kwargs)
        try:
            return self._results.run(func, args, kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            raise NeedsValue(
                f"{script_line()}: {self.signatures.name(func)} makes a result whose size or value depends "
                "on data, and nothing is computed; use a form of fixed size there (a balanced router, "
                "a mask instead of a selection)"
            ) from None

    def _note(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        name = self.signatures.name(func)
        space, _, short = name.partition("::")
        self.known.note(short, args, kwargs, out)
        read = [self.storages.number(t) for t in communication.tensors(args)]
        if kwargs:
            read += [self.storages.number(t) for t in communication.tensors(kwargs)]
        self._note_freed()
        before = self.storages.live
        results = [] if out is None else communication.tensors(out)
        made = [self.storages.number(t) for t in results]
        on_device = self._place(read, made)
        if "resize" in short:
            for tensor in communication.tensors(args)[:1]:
                self.storages.resized(tensor)
        if not self.recording:
            self.storages.freed = 0
            return
        writes = self._written(func, args, read, made)
        comm = self._communication(space, name, args, kwargs, out)
        plain = _IN_BACKWARD.get(name, "") if self.where.phase == BACKWARD else ""
        self._add(
            self.signatures.number(func, args, kwargs, out, plain),
            read,
            writes,
            comm,
            not on_device,
            self.storages.live - before + self.storages.freed,
        )
        if short == "wait_tensor":
            self.ops[-1].waits_for = self._writer.get(read[0], -1)
            self.ops[-1].is_host = False
        for number in writes:
            if short != "wait_tensor":
                self._writer[number] = len(self.ops) - 1

    def _note_freed(self) -> None:
        """What died since the last operator was given back when it ended, or before a step began."""
        freed, self.storages.freed = self.storages.freed, 0
        if self.recording and self.ops and self.ops[-1].step == self.where.step:
            self.ops[-1].free += freed
        elif self.recording:
            self._freed_before += freed

    def _place(self, read: list[int], made: list[int]) -> bool:
        """Results of work on the device are on the device."""
        storages = self.storages
        if storages.everything:
            return True
        on_device = any(map(storages.on_device, read))
        if on_device:  # operators do not mix devices, scalars and index tensors aside
            for number in (*made, *read):
                storages.mark(number)
        return on_device or any(map(storages.on_device, made))

    def _written(self, func: Any, args: Any, read: list[int], made: list[int]) -> list[int]:
        """New storages, and those of arguments that the schema says are changed."""
        known = set(read)
        written = [n for n in made if n not in known]
        places = self._mutates.get(func)
        if places is None:
            places = self._mutates[func] = _changed(func)
        for place in places:
            if place < len(args):
                written += [self.storages.number(t) for t in communication.tensors(args[place])]
        return written

    def _communication(self, space: str, name: str, args: Any, kwargs: Any, out: Any) -> int:
        if space not in SPACES:
            return -1
        comm = communication.read(name, args, kwargs, out)
        if comm is None:
            return -1
        self.comms.append(comm)
        self.last_comm = len(self.ops)
        return len(self.comms) - 1

    def _add(
        self,
        signature: int,
        read: list[int],
        writes: list[int],
        comm: int,
        is_host: bool,
        taken: int,
    ) -> None:
        where = self.where
        freed, self.storages.freed = self.storages.freed, 0
        early, self._freed_before = self._freed_before, 0
        self.ops.append(
            Op(
                signature,
                where.module,
                where.phase,
                where.step,
                read,
                writes,
                comm,
                -1,
                max(taken, 0),
                freed + early,
                is_host,
                where.micro_batch,
            )
        )

    def wait(self, op: int, name: str) -> None:
        """The script waited for the communication of `op`."""
        if not self.recording or not 0 <= op < len(self.ops):
            return
        made = self.ops[op].writes or self.ops[op].reads
        self._add(self.signatures.number(name, (), {}, None, name), list(made), [], -1, False, 0)
        self.ops[-1].waits_for = op


def _changed(func: Any) -> tuple[int, ...]:
    schema = getattr(func, "_schema", None)
    if schema is None:
        return ()
    places = [i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write]
    if schema.name.startswith("c10d::") and not places:
        kind = schema.name.partition("::")[2]
        places = [] if kind == "send" else [0]  # most of c10d's schemas do not say what they change
    return tuple(places)
