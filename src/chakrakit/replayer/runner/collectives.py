"""Communication a replay may do: which operators, and how each is issued on a process group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ISSUED = {
    "c10d::allreduce_": "all_reduce",
    "c10d::allreduce_coalesced_": "all_reduce_coalesced",
    "c10d::_allgather_base_": "all_gather_flat",
    "c10d::_reduce_scatter_base_": "reduce_scatter_flat",
    "c10d::allgather_": "all_gather",
    "c10d::allgather_into_tensor_coalesced_": "all_gather_coalesced",
    "c10d::reduce_scatter_": "reduce_scatter",
    "c10d::reduce_scatter_tensor_coalesced_": "reduce_scatter_coalesced",
    "c10d::alltoall_base_": "all_to_all_flat",
    "c10d::alltoall_": "all_to_all",
    "c10d::broadcast_": "broadcast",
    "c10d::reduce_": "reduce",
    "c10d::gather_": "gather",
    "c10d::scatter_": "scatter",
    "c10d::send": "send",
    "c10d::recv_": "recv",
    "c10d::recv_any_source_": "recv",
    "c10d::barrier": "barrier",
}
"""Operators of a process group → what a plan calls them."""

FUNCTIONAL = {
    "_c10d_functional::all_reduce": "all_reduce",
    "_c10d_functional::all_reduce_": "all_reduce",
    "_c10d_functional::all_gather_into_tensor": "all_gather_flat",
    "_c10d_functional::reduce_scatter_tensor": "reduce_scatter_flat",
    "_c10d_functional::all_to_all_single": "all_to_all_flat",
    "_c10d_functional::broadcast": "broadcast",
    "_c10d_functional::broadcast_": "broadcast",
    "_c10d_functional::wait_tensor": "wait",
}
"""Operators that name their group by a string; called as they are where the group is whole."""

NO_WORK = frozenset(
    [
        "_c10d_functional::_wrap_tensor_autograd",
        "c10d::monitored_barrier_",
        "aten::record_stream",
        "aten::resize_",
        "aten::resize_as_",
        "aten::set_",
        "aten::as_strided_",
        "aten::t_",
        "aten::transpose_",
        "aten::squeeze_",
        "aten::unsqueeze_",
        "aten::swapaxes_",
        "aten::swapdims_",
        "aten::detach_",
    ]
)
"""Operators that only say something about a tensor. Who lends memory to whom is planned anew, and a
tensor that got another shape is a view wherever it is used so."""

MESSAGES = ("send", "recv")
REDUCTIONS = ("sum", "avg", "max", "min", "product", "band", "bor", "bxor")

Tensors = list[Any]


def issue(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    """Start a communication; gives the work to wait for, None for what is over at once."""
    work = WAYS[step["op"]](group, step, inputs, outputs)
    if step.get("reduce") == "avg" and not _averages(group):
        return _Averaged(work, outputs, group.size())
    return work


def _averages(group: Any) -> bool:
    """Whether a group's library divides; the others give a sum."""
    import torch.distributed as distributed

    return "nccl" in str(distributed.get_backend(group))


class _Averaged:
    """A sum that is divided by the members when it is there."""

    def __init__(self, work: Any, outputs: Tensors, members: int) -> None:
        self._work, self._outputs, self._members = work, outputs, members

    def wait(self) -> None:
        """Until the average is there."""
        self._work.wait()
        for tensor in self._outputs:
            exact = tensor.is_floating_point() or tensor.is_complex()
            tensor.div_(self._members, rounding_mode=None if exact else "trunc")


def _options(name: str, **fields: Any) -> Any:
    import torch.distributed.distributed_c10d as c10d

    made = getattr(c10d, name)()
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def _reduction(group: Any, step: dict[str, Any]) -> Any:
    import torch.distributed as distributed

    wanted = step.get("reduce", "sum")
    if wanted == "avg" and not _averages(group):
        wanted = "sum"
    return getattr(distributed.ReduceOp, wanted.upper())


def _all_reduce(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.allreduce(outputs, _options("AllreduceOptions", reduceOp=_reduction(group, step)))


def _all_reduce_many(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    options = _options("AllreduceCoalescedOptions", reduceOp=_reduction(group, step))
    return group.allreduce_coalesced(outputs, options)


def _all_gather_flat(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    options = _options("AllgatherOptions", asyncOp=not step.get("wait", False))
    return group._allgather_base(outputs[0], inputs[0], options)


def _reduce_scatter_flat(
    group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors
) -> Any:
    options = _options("ReduceScatterOptions", reduceOp=_reduction(group, step))
    return group._reduce_scatter_base(outputs[0], inputs[0], options)


def _all_gather(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.allgather([outputs], inputs)


def _all_gather_many(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.allgather_into_tensor_coalesced(outputs, inputs)


def _reduce_scatter(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    options = _options("ReduceScatterOptions", reduceOp=_reduction(group, step))
    return group.reduce_scatter(outputs, [inputs], options)


def _reduce_scatter_many(
    group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors
) -> Any:
    options = _options("ReduceScatterOptions", reduceOp=_reduction(group, step))
    return group.reduce_scatter_tensor_coalesced(outputs, inputs, options)


def _all_to_all_flat(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    splits = step.get("out_splits", []), step.get("in_splits", [])
    return group.alltoall_base(outputs[0], inputs[0], *splits)


def _all_to_all(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.alltoall(outputs, inputs)


def _broadcast(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    options = _options("BroadcastOptions", rootRank=step.get("root", 0), rootTensor=0)
    return group.broadcast(outputs, options)


def _reduce(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    root = step.get("root", 0)
    options = _options(
        "ReduceOptions", reduceOp=_reduction(group, step), rootRank=root, rootTensor=0
    )
    return group.reduce(outputs, options)


def _gather(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    options = _options("GatherOptions", rootRank=step.get("root", 0))
    return group.gather([outputs] if outputs else [], inputs, options)


def _scatter(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    options = _options("ScatterOptions", rootRank=step.get("root", 0))
    return group.scatter(outputs, [inputs] if inputs else [], options)


def _send(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.send(inputs, step.get("root", 0), step.get("tag", 0))


def _recv(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.recv(outputs, step.get("root", 0), step.get("tag", 0))


def _barrier(group: Any, step: dict[str, Any], inputs: Tensors, outputs: Tensors) -> Any:
    return group.barrier(_options("BarrierOptions"))


WAYS: dict[str, Callable[[Any, dict[str, Any], Tensors, Tensors], Any]] = {
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _all_reduce_many,
    "all_gather_flat": _all_gather_flat,
    "reduce_scatter_flat": _reduce_scatter_flat,
    "all_gather": _all_gather,
    "all_gather_coalesced": _all_gather_many,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_coalesced": _reduce_scatter_many,
    "all_to_all_flat": _all_to_all_flat,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "send": _send,
    "recv": _recv,
    "barrier": _barrier,
}
