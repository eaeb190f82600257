"""DistributedDataParallel in Python: the same buckets, reduced in the same order.

PyTorch's own reducer reads data in C++ and does not survive fake tensors. What it does is stated in its
sources: gradients are scaled into flat buckets as they become ready, buckets are reduced strictly in
order, and after the first backward the buckets are built again in the order gradients arrived.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import distributed
from torch.utils._pytree import tree_map_only

from chakrakit.sources.capture.recording import CaptureError, Patches, script_line

MEBIBYTE = 1 << 20
"""Bytes; PyTorch gives bucket sizes in these."""
FIRST_BUCKET = MEBIBYTE
"""`dist._DEFAULT_FIRST_BUCKET_BYTES`."""
_BROADCAST = 250 * MEBIBYTE
"""`broadcast_bucket_size` of PyTorch's DistributedDataParallel."""
_PLAIN: Any = distributed.DistributedDataParallel


def buckets_of(
    parameters: Sequence[torch.Tensor], limits: Sequence[int], in_order: bool
) -> list[list[int]]:
    """Indices of parameters by bucket: one bucket grows for each type until its limit is reached.

    The first full bucket of a type has the first limit, later ones the next, the last limit stays.
    Unless the parameters are in order already, buckets are sorted by their first parameter.
    """
    open_: dict[torch.dtype, tuple[list[int], int]] = {}
    used: dict[torch.dtype, int] = {}
    closed: list[list[int]] = []
    for index, parameter in enumerate(parameters):
        kind = parameter.dtype
        members, size = open_.get(kind, ([], 0))
        members.append(index)
        size += parameter.numel() * parameter.element_size()
        open_[kind] = (members, size)
        if size >= limits[min(used.get(kind, 0), len(limits) - 1)]:
            closed.append(members)
            used[kind] = used.get(kind, 0) + 1
            del open_[kind]
    closed += [members for members, _ in open_.values()]
    return closed if in_order else sorted(closed, key=min)


class GradBucket:
    """A bucket as a communication hook sees it, with the methods of PyTorch's `GradBucket`."""

    def __init__(
        self,
        index: int,
        last: bool,
        buffer: torch.Tensor,
        views: list[torch.Tensor],
        parameters: list[torch.Tensor],
    ) -> None:
        self._facts = index, last, buffer, views, parameters

    def index(self) -> int:
        """Number of the bucket."""
        return self._facts[0]

    def is_last(self) -> bool:
        """Whether it is the last one of this backward."""
        return self._facts[1]

    def buffer(self) -> torch.Tensor:
        """All gradients, flat."""
        return self._facts[2]

    def gradients(self) -> list[torch.Tensor]:
        """Views of the buffer by parameter."""
        return self._facts[3]

    def parameters(self) -> list[torch.Tensor]:
        """The parameters."""
        return self._facts[4]

    def set_buffer(self, buffer: torch.Tensor) -> None:
        """Replace the buffer."""
        self._facts = (*self._facts[:2], buffer, *self._facts[3:])


class _Bucket:
    def __init__(self, indices: list[int], parameters: Sequence[torch.Tensor]) -> None:
        self.indices = indices
        own_parameters = [parameters[i] for i in indices]
        self.buffer = torch.empty(
            sum(p.numel() for p in own_parameters),
            dtype=own_parameters[0].dtype,
            device=own_parameters[0].device,
        )
        self.views = self.cut(own_parameters, self.buffer)
        self.ready = 0
        self.work: Any = None

    def cut(self, parameters: Sequence[torch.Tensor], flat: torch.Tensor) -> list[torch.Tensor]:
        """A buffer as one view for each parameter."""
        views, at = [], 0
        for p in parameters:
            views.append(flat.as_strided(p.shape, p.stride() or (), at))
            at += p.numel()
        return views


class _Reducer:
    """What others call of the reducer, whose work our hooks do: Lightning prepares it for backward itself."""

    def _rebuild_buckets(self) -> bool:
        return False

    def prepare_for_backward(self, *_: Any) -> None:
        """Nothing to prepare: gradients that arrive are counted."""


class DistributedDataParallel(_PLAIN):
    """Stands in for PyTorch's class; it is a subclass because other parts of PyTorch test for that type."""

    def __init__(
        self,
        module: torch.nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        **_: Any,
    ) -> None:
        torch.nn.Module.__init__(self)
        Joinable.__init__(self)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that "
                "require a gradient."
            )
        self.module = module
        self.device_mesh = device_mesh
        self.process_group = device_mesh.get_group() if device_mesh is not None else process_group
        self.process_group = self.process_group or dist.group.WORLD
        self.device = next(module.parameters()).device
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.reducer = _Reducer()
        cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * MEBIBYTE)
        self._limits = [FIRST_BUCKET if bucket_cap_mb is None else cap, cap]
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named_parameters = [(n, p) for n, p in module.named_parameters() if n not in ignored]
        self._trained = [p for _, p in named_parameters if p.requires_grad]
        self._world = dist.get_world_size(self.process_group)
        self._hook: Any = None
        self._buckets: list[_Bucket] = []
        self._arrived: list[int] = []
        self._rebuilt = self._queued = False
        self._next = 0
        if init_sync:
            self._broadcast([p.detach() for _, p in named_parameters] + list(module.buffers()))
        self._build_first()
        for index, parameter in enumerate(self._trained):
            parameter.register_post_accumulate_grad_hook(self._on_gradient(index))

    # --- buckets --------------------------------------------------------------------------------

    def _build_first(self) -> None:
        single = self.static_graph or not self.find_unused_parameters
        limits = [sys.maxsize] if single else self._limits
        buckets = buckets_of(self._trained, limits, in_order=False)
        self._make(list(reversed(buckets)))

    def _make(self, buckets: Sequence[list[int]]) -> None:
        self._buckets = [_Bucket(indices, self._trained) for indices in buckets]
        self._place = {
            i: (b, k)
            for b, bucket in enumerate(self._buckets)
            for k, i in enumerate(bucket.indices)
        }

    def _rebuild(self) -> None:
        if self._rebuilt or len(self._arrived) < len(self._trained):
            return
        if self.find_unused_parameters and not self.static_graph:
            return
        self._rebuilt = True
        ordered = [self._trained[i] for i in self._arrived]
        buckets = buckets_of(ordered, self._limits, in_order=True)
        self._make([[self._arrived[i] for i in indices] for indices in buckets])

    # --- a backward pass ------------------------------------------------------------------------

    def _on_gradient(self, index: int) -> Any:
        def arrived(parameter: torch.Tensor) -> None:
            if not self.require_backward_grad_sync:
                return
            if not self._queued:
                self._queued = True
                torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            if not self._rebuilt:
                self._arrived.append(index)
            self._ready(index, parameter)

        return arrived

    def _ready(self, index: int, parameter: torch.Tensor) -> None:
        number, place = self._place[index]
        bucket = self._buckets[number]
        with torch.no_grad():
            self._put(parameter, bucket.views[place])
        bucket.ready += 1
        while self._next < len(self._buckets) and self._is_full(self._buckets[self._next]):
            self._launch(self._buckets[self._next], self._next)
            self._next += 1

    def _put(self, parameter: torch.Tensor, view: torch.Tensor) -> None:
        grad = parameter.grad
        if grad is None:
            view.zero_()
        elif self.gradient_as_bucket_view:
            if grad.untyped_storage()._cdata != view.untyped_storage()._cdata:
                view.copy_(grad)
                parameter.grad = view
            if self._hook is None:
                view.div_(self._world)
        elif self._hook is None:
            torch.mul(grad, 1.0 / self._world, out=view)
        else:
            view.copy_(grad)

    def _is_full(self, bucket: _Bucket) -> bool:
        return bucket.ready == len(bucket.indices)

    def _launch(self, bucket: _Bucket, number: int) -> None:
        with torch.no_grad():
            if self._hook is None:
                bucket.work = dist.all_reduce(
                    bucket.buffer, group=self.process_group, async_op=True
                )
                return
            state, hook = self._hook
            parameters: list[torch.Tensor] = [self._trained[i] for i in bucket.indices]
            last = number == len(self._buckets) - 1
            bucket.work = hook(
                state, GradBucket(number, last, bucket.buffer, bucket.views, parameters)
            )

    def _finish(self) -> None:
        """End a backward pass: reduce buckets with unused parameters, wait, and copy the gradients back."""
        for index, (number, _) in sorted(self._place.items(), key=lambda item: item[1]):
            bucket = self._buckets[number]
            if (
                number >= self._next
                and not self._is_full(bucket)
                and self._trained[index].grad is None
            ):
                self._ready(index, self._trained[index])
        used = self._used_map()
        with torch.no_grad():
            for bucket in self._buckets:
                self._give_back(bucket)
        if used is not None:
            used.wait()
        self._queued, self._next = False, 0
        for bucket in self._buckets:
            bucket.ready, bucket.work = 0, None

    def _used_map(self) -> Any:
        if not self.find_unused_parameters or self.static_graph:
            return None
        used = torch.zeros(len(self._trained), dtype=torch.int32)
        return dist.all_reduce(used, group=self.process_group, async_op=True)

    def _give_back(self, bucket: _Bucket) -> None:
        if bucket.work is None:
            return
        awaited = bucket.work.wait()  # a hook's future may give another buffer
        flat = awaited if isinstance(awaited, torch.Tensor) else bucket.buffer
        if self.gradient_as_bucket_view:
            return
        reduced = bucket.cut([self._trained[i] for i in bucket.indices], flat)
        for index, view in zip(bucket.indices, reduced, strict=True):
            grad = self._trained[index].grad
            if grad is not None:
                grad.copy_(view)

    # --- forward --------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module, after broadcasting rank 0's buffers.

        Buffers are not sent if the forward before this one was without gradient synchronisation.
        """
        Join.notify_join_context(self)
        if torch.is_grad_enabled():
            self._rebuild()
        if self.broadcast_buffers and self.require_forward_param_sync:
            self._broadcast(list(self.module.buffers()))
        if self._join_config.enable:
            self._check_global_requires_backward_grad_sync(is_joined_rank=False)
        out = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = (
            torch.is_grad_enabled() and self.require_backward_grad_sync
        )
        return out

    def _broadcast(self, tensors: list[torch.Tensor]) -> None:
        """Broadcast tensors coalesced by type, as PyTorch's `_broadcast_coalesced` does."""
        with torch.no_grad():
            for indices in buckets_of(tensors, [_BROADCAST], in_order=False):
                coalesced = [tensors[i] for i in indices]
                flat = (
                    torch.cat([t.reshape(-1) for t in coalesced])
                    if len(coalesced) > 1
                    else coalesced[0].reshape(-1)
                )
                dist.broadcast(flat, group=self.process_group, group_src=0)
                at = 0
                for tensor in coalesced:
                    tensor.copy_(flat.narrow(0, at, tensor.numel()).view_as(tensor))
                    at += tensor.numel()

    def join_hook(self, **_: Any) -> JoinHook:
        """A hook that does nothing, since no rank runs out of inputs before others; see `install`."""
        return JoinHook()

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Buckets go through the hook instead."""
        self._hook = (state, hook)

    def _set_static_graph(self) -> None:
        self.static_graph = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return {}  # figures of PyTorch's reducer, which is not here


def _on_one_device(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """DataParallel's forward of one device, which hands inputs over and calls the module."""
    if len(self.device_ids) > 1:
        raise CaptureError(
            f"{script_line()}: DataParallel runs one process on {len(self.device_ids)} GPUs, and a capture "
            "has one process for each; use DistributedDataParallel, or capture one GPU with --ranks 1"
        )
    if self.device_ids:
        inputs, kwargs = tree_map_only(torch.Tensor, torch.Tensor.cuda, (inputs, kwargs))
    return self.module(*inputs, **kwargs)


def install(patches: Patches) -> None:
    """Replace PyTorch's class by the stand-in, also under names imported before."""
    patches.set(torch.nn.DataParallel, "forward", _on_one_device)
    patches.replace(_PLAIN, DistributedDataParallel)
    patches.wrap(Join, "_get_num_nonjoined_procs", lambda _: _joined(patches))


def _joined(patches: Patches) -> Callable[[Any], int]:
    def none_left(_: Any) -> int:
        patches.note("torch.distributed.algorithms.Join: all ranks end at the same time")
        return 0

    return none_left
