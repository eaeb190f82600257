"""Recorder: records every operator that PyTorch dispatches, with its storages and communication."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from chakrakit.operators import SPACES, by_elements, host_copy_name, is_silent
from chakrakit.sources.capture.observing import communication, shortcuts, unknown_sizes
from chakrakit.sources.capture.observing.known_values import KnownValues
from chakrakit.sources.capture.observing.program_streams import ProgramStreams
from chakrakit.sources.capture.observing.real_values import (
    MOST_FRACTIONS,
    OperatorCall,
    RealValues,
    host_form,
)
from chakrakit.sources.capture.observing.signatures import Signatures
from chakrakit.sources.capture.observing.storages import Storages, rounded
from chakrakit.sources.capture.observing.whereabouts import BACKWARD, Whereabouts
from chakrakit.sources.capture.observing.workspaces import workspace
from chakrakit.sources.capture.recording import (
    CaptureError,
    CommCall,
    Lifetimes,
    NeedsValue,
    Op,
    asking_line,
    script_line,
)
from chakrakit.trace.model import CollectiveType

# Lists of sharded tensors are taken apart here: DTensor would work out a sharding for every element of a
# list, which takes seconds for an optimizer's, and element by element there is nothing to redistribute.


def fits(func: Any, args: Any) -> bool:
    """Whether an operator works element by element on lists of tensors that are sharded alike."""
    if not by_elements(getattr(getattr(func, "_schema", None), "name", "")):
        return False
    lists = [
        a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)
    ]
    first = lists[0] if lists else []
    return all(
        not isinstance(t, DTensor) or (isinstance(f, DTensor) and t.placements == f.placements)
        for tensors in lists
        if len(tensors) == len(first)
        for f, t in zip(first, tensors, strict=True)
    )


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run the operator on the local shards; results are sharded like the first list."""
    out = func(*[_local(a) for a in args], **{k: _local(v) for k, v in kwargs.items()})
    if out is None:
        return None
    if getattr(func, "_schema", None) is not None and func._schema.name.endswith("_"):
        return args[0]
    return [
        DTensor(shard, like._spec, requires_grad=False) if isinstance(like, DTensor) else shard
        for shard, like in zip(out, args[0], strict=True)
    ]


def _local(value: Any) -> Any:
    if isinstance(value, DTensor):
        return value._local_tensor
    return [_local(v) for v in value] if isinstance(value, (list, tuple)) else value


_PLAIN = {torch.Tensor, FakeTensor, torch.nn.Parameter, torch.nn.Buffer}
_NOISE = ("prim::device", "prim::layout")
_PROFILER = ("profiler::",)


_ADD, _ADD_IN_PLACE = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor
_TO_COPY, _READ = torch.ops.aten._to_copy.default, torch.ops.aten._local_scalar_dense.default
_COPY_IN_PLACE, _PIN = torch.ops.aten.copy_.default, torch.ops.aten._pin_memory.default
_VIEW = torch.ops.aten.view.default
_INDEX, _HISTOGRAM = torch.ops.aten.index.Tensor, torch.ops.aten.histc.default
_REPEAT = torch.ops.aten.repeat_interleave.Tensor
_HOST = torch.device("cpu")
_UNSEEN = object()
_ORDERED = {torch.ops.aten.native_layer_norm_backward.default}
"""Operators whose results lie in order whatever the gradient's strides are, except for fake tensors."""
_NOTHING_SENT = -2
"""In place of a communication: a collective of no elements, for which NCCL launches nothing."""
_EQUAL = (CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER)
"""Collectives of no elements on one rank are so on all."""
_BLAS = ("mm", "addmm", "bmm", "baddbmm")
_FILLED = (torch.ops.aten.scalar_tensor.default, torch.ops.aten.zeros.default)
"""What PyTorch fills where a tensor is, which for fake ones is the host."""
_FILLERS = (
    torch.ops.aten.where.self,
    torch.ops.aten.scatter.src,
    torch.ops.aten.scatter_.src,
    torch.ops.aten.scatter.value,
    torch.ops.aten.scatter_.value,
)
"""For whom it does: `where` with a number, and gradients of what was selected."""
_IN_BACKWARD = {"aten::scatter": "aten::scatter_", "aten::index_put": "aten::_index_put_impl_"}
"""Operators that autograd calls for fake tensors, and those it calls for plain tensors instead."""


class Recorder(TorchDispatchMode):
    """Records while `recording`; storages and known values are followed all the time.

    Enter it after the fake-tensor mode, so that it sees operators first and none of what fake tensors do
    inside them. Operators on subclasses (DTensor) are left to these and recorded as what they dispatch.
    """

    supports_higher_order_operators = True  # which are refused by name

    def __init__(
        self,
        where: Whereabouts,
        storages: Storages,
        known_values: KnownValues,
        real_values: RealValues,
    ) -> None:
        super().__init__()
        self.where, self.storages = where, storages
        self.known_values, self.real_values = known_values, real_values
        self.workspace = 0
        """Bytes that cuBLAS keeps for each thread that multiplies matrices; 0 where no GPU is named."""
        self._workspaces: set[bool] = set()
        self.multiprocessors = 0
        """Of the GPU that is named, by which its reductions are laid out; 0 where none is."""
        self.read_value: Callable[[torch.Tensor], Any] | None = None
        """Reads the only element of a tensor for PyTorch's own code in C++."""
        self.declared: Callable[[], float | None] = lambda: None
        """The value that the user declared for the script's line."""
        self.mode: Any = None
        """The program's fake-tensor mode. What runs in another one is PyTorch's own trying out of shapes."""
        self.signatures = Signatures()
        self.ops: list[Op] = []
        self._freed_before = 0
        self.comms: list[CommCall] = []
        self.lifetimes = Lifetimes()
        self.streams = ProgramStreams()
        self.recording = False
        self.last_comm = -1
        """The operator of the last communication; -1 while not recording."""
        self._skip: dict[Any, bool] = {}
        self._composite: dict[Any, Any] = {}
        self._shapeless: dict[Any, bool] = {}
        self.dropout_state: torch.Tensor | None = None
        """What cuDNN draws dropout from, once it is needed."""
        self._mutates: dict[Any, tuple[tuple[int, str], ...]] = {}
        self._plain: dict[tuple[type, ...], bool] = {}
        self._writer: dict[int, int] = {}
        self._filled: dict[int, int] = {}
        self._results = shortcuts.Results()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the guard costs as much as an operator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if type(func) is not OpOverload and isinstance(func, HigherOrderOperator):
            raise CaptureError(
                f"{asking_line()}: {func} runs functions of the script inside a kernel, which is not "
                "captured; use an operator instead, such as scaled_dot_product_attention with is_causal or "
                "a mask for flex_attention"
            )
        if self.mode is not None and _fake_mode() is not self.mode:
            return func(*args, **kwargs)
        if func is shortcuts.DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device
        if kwargs.get("device") is not None and kwargs["device"].type == "cuda":
            return self._on_device(func, args, kwargs)
        plain = self._plain.get(types)
        if plain is None:
            plain = self._plain[types] = all(t in _PLAIN for t in types)
        if not plain:
            if not fits(func, args):
                return NotImplemented
            with self:
                return run(func, args, kwargs)
        composite = self._composite.get(func, _UNSEEN)
        if composite is _UNSEEN:
            composite = self._composite[func] = _composite(func)
        if composite is not None:
            with self:  # below autograd, such operators arrive whole
                return composite(*args, **kwargs)
        if self._is(func, self._skip, self._is_noise):
            out = self._run(func, args, kwargs)
            if isinstance(out, torch.Tensor):
                self.real_values.follow(OperatorCall(func, args, kwargs, out), on_device=False)
            return out
        if func is _ADD and self._accumulates(args):
            func = _ADD_IN_PLACE
        out = self._run(func, args, kwargs)
        self._note(func, args, kwargs, out)
        return out

    @staticmethod
    def _is(func: Any, known: dict[Any, bool], ask: Callable[[Any], bool]) -> bool:
        """The answer to a question about an operator, asked once."""
        answer = known.get(func)
        if answer is None:
            answer = known[func] = ask(func)
        return answer

    def _on_device(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operator that names the device on the host that stands in for it."""
        self.storages.only_device()
        if func is _TO_COPY and _stays(args[0], kwargs) and self.storages.holds(args[0]):
            return args[0].detach()
        before, self.storages.arriving = self.storages.arriving, True
        try:
            with self:
                return func(*args, **{**kwargs, "device": _HOST})
        finally:
            self.storages.arriving = before

    def _accumulates(self, args: Any) -> bool:
        """Whether autograd adds a gradient to one that has no other owner.

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
        func = host_form(func)
        if func is torch.ops.aten.bincount.default and len(args) + len(kwargs) > 1:
            size = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
            if size:
                return args[0].new_empty((size,), dtype=torch.int64)
        if func is _HISTOGRAM and shortcuts.fits(args):
            return args[0].new_empty((args[1] if len(args) > 1 else kwargs.get("bins", 100),))
        if func is _TO_COPY and _is_plain_copy(args[0], kwargs):
            return torch.ops.aten.clone.default(args[0], memory_format=kwargs.get("memory_format"))
        if func in shortcuts.VIEWS and shortcuts.fits(args):
            return shortcuts.view(func, args, kwargs)
        if func in shortcuts.SPLITS and shortcuts.fits(args):
            return shortcuts.split(func, args, kwargs)
        if func in shortcuts.MADE and kwargs.get("device") in (None, _HOST):
            return shortcuts.made(func, args, kwargs, _fake_mode())
        if self._is(func, self._shapeless, communication.lacks_shapes):
            return communication.issue(func, args, kwargs)
        if func is shortcuts.LIFT and shortcuts.is_number(args[0]):
            return shortcuts.lifted(args[0], _fake_mode())
        try:
            out = self._results.run(func, args, kwargs)
            return _in_order(out) if func in _ORDERED else out
        except (DynamicOutputShapeException, DataDependentOutputException):
            if func is _READ and self.read_value is not None:
                return self.read_value(args[0])
            real = self.real_values.compute(func, args, kwargs)
            if real is not None:
                return self._as_fake(real)
            if func is _INDEX and (places := self.real_values.places(args[1])) is not None:
                return func(args[0], self._as_fake(places))
            if func is _REPEAT and (count := self.known_values.get(args[0])) is not None:
                size = int(count) * args[0].numel()  # places of so many copies of each
                return args[0].new_empty(size, dtype=torch.int64)
            out = unknown_sizes.ctc_loss(func, args, self.real_values)
            if out is None and (count := self.declared()) is not None:
                out = unknown_sizes.selected(func, args, int(count))
            if out is not None:
                return out
            raise NeedsValue(
                f"{asking_line()}: {self.signatures.name(func)} makes a result whose size or value depends "
                "on data of the device, and nothing is computed there; make the data on the host (tensors of "
                "the CPU have values), use a form of fixed size (a balanced router, a mask instead of a "
                f"selection), or declare how many are selected with --value {script_line()}=NUMBER"
            ) from None

    def _as_fake(self, real: Any) -> Any:
        return self.real_values.to_fake(real, _fake_mode())

    def _note(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        name = self.signatures.name(func)
        space, _, short = name.partition("::")
        self.known_values.note(short, args, kwargs, out)
        inputs = communication.tensors(args)
        if kwargs:
            inputs += communication.tensors(kwargs)
        read = [self.storages.number(t) for t in inputs]
        self._note_freed()
        before = self.storages.live
        if short in _BLAS and self.workspace:
            self._hold_workspace(read)
        results = [] if out is None else communication.tensors(out)
        result_storages = [self.storages.number(t) for t in results]
        leaves = func is _TO_COPY and self._leaves(args[0], kwargs)
        if func is _PIN or kwargs.get("pin_memory"):
            self.storages.keep_on_host(results[0], pinned=True)
        copy = self._copied(func, read, result_storages, leaves)
        on_device = bool(copy) or self._place(read, result_storages, leaves)
        changed = self._changed_tensors(func, args, kwargs)
        if space in SPACES and self.real_values.exchange(short, args):
            pass
        elif self.real_values.lacks(inputs):
            self.real_values.forget(results, changed)
        else:
            self._follow(OperatorCall(func, args, kwargs, out, changed), on_device, read)
        if "resize" in short and inputs:
            self.storages.resized(inputs[0])
        if not self.recording:
            self.storages.freed = 0
            return
        brief = self._brief(func, args, out) if on_device and self.multiprocessors else 0
        writes = self._writes(changed, read, result_storages)
        comm = self._communication(space, name, args, kwargs, out)
        if comm == _NOTHING_SENT:
            self.last_comm = -1
            return
        plain, named = (
            _plainly(func, name, args, out) if self.where.phase == BACKWARD else ("", args)
        )
        self._add(
            self.signatures.number(func, named, kwargs, out, copy or plain),
            read,
            writes,
            comm,
            not on_device,
            self.storages.live - before + self.storages.freed + brief,
        )
        self.ops[-1].free += brief
        if func in _FILLED and not on_device:
            self._filled |= dict.fromkeys(writes, len(self.ops) - 1)
        elif self._filled and func in _FILLERS and on_device and not self.storages.arriving:
            self._fill_on_device(read)
        if short == "wait_tensor":
            self.ops[-1].waits_for = self._writer.get(read[0], -1)
            self.ops[-1].is_host = False
        for number in writes:
            if short != "wait_tensor":
                self._writer[number] = len(self.ops) - 1

    def _fill_on_device(self, read: list[int]) -> None:
        """What an operator of the device filled for itself was filled there."""
        for number in read:
            at = self._filled.pop(number, -1)
            if at >= 0:
                self.ops[at].is_host = False

    def _brief(self, func: Any, args: Any, out: Any) -> int:
        """Bytes that an operator takes only while it runs."""
        size = rounded(workspace(func, args, out, self.multiprocessors))
        self.storages.hold_briefly(size)
        return size

    def _leaves(self, tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
        """Whether a copy is to the host: one that the program asks for, or the gradient of one from there.

        Where PyTorch itself changes a type (`softmax(x, dtype=…)`, autocast and its gradients) it names the
        host too, since that is where fake tensors are; such copies stay on the device.
        """
        if kwargs.get("device") != _HOST or self.storages.arriving:
            return False
        changes = kwargs.get("dtype") not in (None, tensor.dtype)
        return self.storages.leaving or (self.where.phase == BACKWARD and not changes)

    def _hold_workspace(self, read: list[int]) -> None:
        """Count the memory that cuBLAS keeps: once for the thread of forwards and once for backwards."""
        phase = self.where.phase == BACKWARD
        on_device = not self.storages.everything and any(map(self.storages.on_device, read))
        if on_device and phase not in self._workspaces:
            self._workspaces.add(phase)
            self.storages.hold_always(self.workspace)

    def _note_freed(self) -> None:
        """Count what was freed since the last operator: with that operator, or before a step's first one."""
        freed, self.storages.freed = self.storages.freed, 0
        if self.recording and self.ops and self.ops[-1].step == self.where.step:
            self.ops[-1].free += freed
        elif self.recording:
            self._freed_before += freed

    def _follow(self, call: OperatorCall, on_device: bool, read: list[int]) -> None:
        """Follow the operator with real values, except for fractions that are copied to the device."""
        everything = self.storages.everything
        crosses = on_device and not everything and not all(map(self.storages.on_device, read))
        if crosses and any(map(_is_data, communication.tensors(call.args))):
            self.real_values.forget(call.out, call.changed)
            return
        on_device = on_device and not (everything and self.where.outside)
        self.real_values.follow(call, on_device)

    def _copied(self, func: Any, read: list[int], results: list[int], leaves: bool) -> str:
        """The name of a copy between host and device; "" for all other work.

        Where a copy arrives, its result is the device's; where it leaves, the host's.
        """
        storages = self.storages
        if storages.everything or func not in (_TO_COPY, _COPY_IN_PLACE):
            return ""
        source = read[-1] if func is _COPY_IN_PLACE else read[0]
        target = read[0] if func is _COPY_IN_PLACE else results[0]
        if func is _TO_COPY:
            arrives = storages.arriving and not storages.on_device(source)
            departs = leaves and storages.on_device(source)
        else:
            arrives = storages.on_host(source) and storages.on_device(target)
            departs = storages.on_device(source) and storages.on_host(target)
        if arrives:
            storages.mark(target)
            pinned = storages.is_pinned(source)
        elif departs:
            pinned = storages.leaving_to_pinned or storages.is_pinned(target)
        else:
            return ""
        return host_copy_name(to_device=arrives, pinned=pinned)

    def _place(self, read: list[int], results: list[int], leaves: bool) -> bool:
        """Mark results of work on the device as being there; returns whether the operator ran there."""
        storages = self.storages
        if storages.everything:
            return True
        on_device = any(map(storages.on_device, read))
        if leaves:
            return on_device
        if storages.arriving:
            for number in results:
                storages.mark(number)
            return True
        if on_device:  # operators do not mix devices, scalars and index tensors aside
            for number in (*results, *read):
                storages.mark(number)
        return on_device or any(map(storages.on_device, results))

    def _writes(
        self, changed: list[torch.Tensor], read: list[int], results: list[int]
    ) -> list[int]:
        """New storages, and those of arguments that are changed."""
        read_storages = set(read)
        writes = [n for n in results if n not in read_storages]
        return writes + [self.storages.number(t) for t in changed]

    def _changed_tensors(self, func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
        """Arguments that an operator changes, by place or, as `out=`, by name."""
        places = self._mutates.get(func)
        if places is None:
            places = self._mutates[func] = _changed(func)
        found: list[torch.Tensor] = []
        for place, name in places:
            value = args[place] if place < len(args) else kwargs.get(name)
            found += [] if value is None else communication.tensors(value)
        return found

    def _communication(self, space: str, name: str, args: Any, kwargs: Any, out: Any) -> int:
        if space not in SPACES:
            return -1
        comm = communication.read(name, args, kwargs, out)
        if comm is None:
            return -1
        if comm.kind in _EQUAL and comm.in_bytes == comm.out_bytes == 0:
            return _NOTHING_SENT
        comm.line = script_line()
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
        allocated: int,
    ) -> None:
        where = self.where
        freed, self.storages.freed = self.storages.freed, 0
        early, self._freed_before = self._freed_before, 0
        self.ops.append(
            Op(
                signature=signature,
                module=where.module,
                phase=where.phase,
                step=where.step,
                reads=read,
                writes=writes,
                comm=comm,
                waits_for=-1,
                stream=self.streams.current,
                after=self.streams.issue(len(self.ops)),
                alloc=max(allocated, 0),
                free=freed + early,
                is_host=is_host,
                micro_batch=where.micro_batch,
                compiled=where.compiled,
            )
        )

    def follow_deaths(self) -> None:
        """Note when storages die, since something is compiled."""
        self.storages.on_death = self._note_death

    def _note_death(self, number: int) -> None:
        if self.recording and self.ops:
            self.lifetimes.died[number] = len(self.ops) - 1

    def note_returned(self, results: Any) -> None:
        """Note what a compiled call hands back."""
        if self.recording:
            tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
            self.lifetimes.returned += [self.storages.number(_local(t)) for t in tensors]

    def wait(self, op: int, name: str) -> None:
        """The script waited for the communication of `op`."""
        if not self.recording or not 0 <= op < len(self.ops):
            return
        completed = self.ops[op].writes or self.ops[op].reads
        self._add(
            self.signatures.number(name, (), {}, None, name), list(completed), [], -1, False, 0
        )
        self.ops[-1].waits_for = op


def _in_order(results: Any) -> Any:
    return tuple(None if r is None else r.contiguous() for r in results)


def _plainly(func: Any, name: str, args: Any, out: Any) -> tuple[str, Any]:
    """The operator that autograd calls for plain tensors, "" for this one, and its arguments.

    Gradients of views are reshaped, which is a view of tensors like fake ones; of plain ones it is only where
    they lie in order.
    """
    if func is _VIEW and not args[0].is_contiguous():
        return "aten::_reshape_alias", (*args, list(out.stride()))
    return _IN_BACKWARD.get(name, ""), args


def _fake_mode() -> Any:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)


def _is_data(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds too many fractions to be anything that a script decides by."""
    return tensor.is_floating_point() and tensor.numel() > MOST_FRACTIONS


def _composite(func: Any) -> Callable[..., Any] | None:
    """The calls that an operator consists of, gradients included, on the host and on a GPU; None for others.

    PyTorch's own `decompose` asks anew, at every call, whether there are any.
    """
    keys = torch._C.DispatchKey
    if not isinstance(func, OpOverload):
        return None
    has = func.has_kernel_for_dispatch_key
    if not has(keys.CompositeImplicitAutograd) or has(keys.CPU) or has(keys.CUDA):
        return None
    if keys.CompositeImplicitAutograd in func.py_kernels:
        return func.decompose
    return partial(func._op_dk, keys.CompositeImplicitAutograd)


def _stays(tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether a copy changes neither the type nor the layout of a tensor."""
    return kwargs.get("dtype") in (None, tensor.dtype) and kwargs.get("memory_format") is None


def _is_plain_copy(tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether a copy is of the same type: for fake tensors, PyTorch then gives back the tensor itself."""
    same = kwargs.get("dtype") in (None, tensor.dtype)
    return same and isinstance(tensor, FakeTensor) and kwargs.get("device") in (None, _HOST)


_CHANGED_UNSAID = {"fsdp::all_gather_copy_in": 1}
"""Operators whose schemas do not say what they change, and the place of the argument."""


def _changed(func: Any) -> tuple[tuple[int, str], ...]:
    """Place and name of each argument that an operator changes."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return ()
    places = [i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write]
    if schema.name.startswith("c10d::") and not places:
        # Most of c10d's schemas do not list what they change.
        places = [] if schema.name == "c10d::send" else [0]
    places += [_CHANGED_UNSAID[schema.name]] if schema.name in _CHANGED_UNSAID else []
    return tuple((place, schema.arguments[place].name) for place in places)
