"""Which dispatched operators communicate, and their group, sizes, peers and splits."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.recording import CommCall
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.model import CollectiveType

_C = CollectiveType
_OUTPUT_FIRST = (_C.ALL_GATHER, _C.REDUCE_SCATTER, _C.ALL_TO_ALL, _C.GATHER, _C.SCATTER)
_ROOTED = (_C.BROADCAST, _C.REDUCE, _C.GATHER, _C.SCATTER)


def read(name: str, args: Any, kwargs: Any, out: Any) -> CommCall | None:
    """The communication of an operator; None for one that only waits or wraps."""
    space, _, short = name.partition("::")
    kind = _C.ALL_TO_ALL if short == "shard_dim_alltoall" else words.kind_of(short)
    if kind == words.UNKNOWN or "wait" in short or "wrap_tensor" in short:
        return None
    values = [*args, *kwargs.values()]
    group = next((g for g in map(_group, values) if g is not None), None)
    if space != "c10d":
        group = next((v for v in reversed(values) if isinstance(v, str)), group)
    inputs, outputs = _ends(space, kind, args, out)
    comm = CommCall(
        int(kind), group or "", _bytes(inputs), _bytes(outputs), _dtype(inputs or outputs)
    )
    numbers = [v for v in values if type(v) is int]
    lists = [list(v) for v in values if _is_split(v)]
    if kind == _C.ALL_TO_ALL and len(lists) >= 2:
        comm.out_splits, comm.in_splits = lists[0], lists[1]
    elif short == "alltoall_" and (_are_unequal(inputs) or _are_unequal(outputs)):
        comm.out_splits, comm.in_splits = _elements(outputs), _elements(inputs)
    elif short == "allgather_" and _are_unequal(outputs):
        comm.in_bytes = _share(outputs)
    if kind in (words.SEND, words.RECV) and numbers:
        comm.peer, comm.tag = numbers[0], numbers[1] if len(numbers) > 1 else 0
    elif kind in _ROOTED and numbers:
        comm.peer = numbers[0]
    return comm


def _ends(space: str, kind: int, args: Any, out: Any) -> tuple[list[Any], list[Any]]:
    """The tensors a communication sends and those it fills."""
    if space == "c10d" and kind in _OUTPUT_FIRST:
        return tensors(args[1]), tensors(args[0])
    if space == "c10d" or out is None:
        return tensors(args[0]), tensors(args[0])
    return tensors(args[0]), tensors(out)


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in a nest of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        if value and type(value[0]) is int and type(value[-1]) is int:
            return []  # splits, of which there is one per rank
        return [t for v in value for t in tensors(v)]
    return list(tensors(list(value.values()))) if isinstance(value, dict) else []


def lacks_shapes(func: Any) -> bool:
    """Whether fake tensors do not know an operator of communication, as before PyTorch 2.10."""
    if getattr(func, "namespace", "") != "c10d":
        return False
    return not func.has_kernel_for_dispatch_key(torch._C.DispatchKey.Meta)


def issue(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Issue a communication with empty tensors; beside its work it gives back those it fills, its first."""
    with _disable_current_modes():
        out = func(*_emptied(args), **_emptied(kwargs))
    return (args[0], *out[1:]) if isinstance(out, tuple) else out


def _emptied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty(0, dtype=value.dtype)
    if isinstance(value, (list, tuple)):
        return [_emptied(v) for v in value]
    return {k: _emptied(v) for k, v in value.items()} if isinstance(value, dict) else value


def _group(value: Any) -> str | None:
    if isinstance(value, dist.ProcessGroup):
        return str(value.group_name)
    if isinstance(value, torch.ScriptObject):
        try:
            return str(dist.ProcessGroup.unbox(value).group_name)
        except (RuntimeError, TypeError):
            return None  # a reduction's operator is boxed too
    return None


def _bytes(operands: list[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in operands)


def _elements(operands: list[torch.Tensor]) -> list[int]:
    return [t.numel() for t in operands]


def _are_unequal(operands: list[torch.Tensor]) -> bool:
    return any(t.shape != operands[0].shape for t in operands)


def _share(gathered: list[torch.Tensor]) -> int:
    """Bytes that each rank sends in a gather of equal tensors that takes as long as one of unequal tensors.

    PyTorch has NCCL broadcast unequal tensors from one rank after the other, in one group (`allgather` of
    ProcessGroupNCCL.cpp). Around a ring that moves what a gather does: all tensors but one cross each link.
    """
    elements = -(-sum(_elements(gathered)) // len(gathered))
    return elements * gathered[0].element_size()


def _dtype(operands: list[torch.Tensor]) -> str:
    return str(operands[0].dtype).removeprefix("torch.") if operands else ""


def _is_split(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(type(v) is int for v in value)
