"""torch.distributed without peers: fake process groups, meshes, object collectives, futures and waits.

Objects that a rank would receive come from `Mail`: what earlier captured ranks sent.
"""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeWork
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing import RealValues, Recorder, tensors
from chakrakit.sources.capture.recording import CreatedGroup, Patches


class Landed(torch.futures.Future[Any]):
    """The future of a collective, done at once.

    On a GPU, functions that follow run on a separate stream once the collective is done. If they ran at
    once, they would come between the operators issued next; here they run when they are waited for.
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.set_result(value)

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of the function's result, which runs when that is waited for."""
        return Later(self, callback)


class Later(torch.futures.Future[Any]):
    """The future of a function of another future; the function runs once, when this is waited for."""

    def __init__(self, source: Any, callback: Callable[[Any], Any]) -> None:
        super().__init__()
        self._source, self._callback = source, callback

    def wait(self) -> Any:
        """The function's result; runs it the first time."""
        if not super().done():
            self._source.wait()
            result = self._callback(self._source)
            self.set_result(result.wait() if isinstance(result, torch.futures.Future) else result)
        return super().value()

    value = wait

    def done(self) -> bool:
        """It can always be run."""
        return True

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of the function's result, which runs when that is waited for."""
        return Later(self, callback)


class Mail:
    """Pickled values by name. What earlier captures `put` is there for later ones to `get`.

    All of it is made and read by processes of this very capture.
    """

    def __init__(self, received: Mapping[str, bytes]) -> None:
        self.received = dict(received)
        self.sent: dict[str, bytes] = {}

    def put(self, name: str, value: Any) -> None:
        """Send a value to the ranks captured after this one; one that cannot be pickled is not sent."""
        try:
            self.sent[name] = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
            self.sent.pop(name, None)

    def get(self, name: str) -> Any:
        """The value sent under a name, or None."""
        pickled = self.sent.get(name) or self.received.get(name)
        return None if pickled is None else pickle.loads(pickled)

    def names(self) -> list[str]:
        """All names under which values were sent."""
        return [*self.received, *self.sent]


_CALLS = (
    "allreduce",
    "allreduce_coalesced",
    "allgather",
    "allgather_coalesced",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_coalesced",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "alltoall",
    "alltoall_base",
    "all_to_all_single",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
    "recv_anysource",
    "barrier",
)


class Distributed:
    """One rank of `world`; the others do not exist.

    `groups` lists every process group in the order in which all ranks make them. Objects sent from rank 0
    reach the ranks captured after it by `mail`.
    """

    def __init__(
        self, patches: Patches, rank: int, world: int, recorder: Recorder, mail: Mail
    ) -> None:
        self.patches, self.rank, self.world, self.recorder = patches, rank, world, recorder
        self.mail = mail
        self.groups: list[CreatedGroup] = []
        self._objects = 0
        self._works: weakref.WeakKeyDictionary[Any, _Issued] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Replace what needs peers."""
        self.patches.replace(_PLAIN_INIT, self._init)
        self.patches.wrap(c10d, "_new_group_with_tag", self._logged)
        self._install_meshes()
        self._install_objects()
        for name in _CALLS:
            self.patches.wrap(dist.ProcessGroup, name, partial(self._call, name))
        for work in (dist.Work, FakeWork):
            self.patches.wrap(work, "wait", self._wait)
            self.patches.wrap(work, "is_completed", lambda _: lambda work: True)
            self.patches.set(work, "get_future", lambda work: self._get_future(work))

    def _init(self, backend: Any = None, *_: Any, **kwargs: Any) -> None:
        if dist.is_initialized():
            return
        store = FakeStore()
        with _disable_current_modes():
            _PLAIN_INIT("fake", store=store, rank=self.rank, world_size=self.world)
        world = tuple(range(self.world))
        self.groups.append(CreatedGroup(str(c10d._get_default_group().group_name), world, "world"))

    def _logged(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
            kwargs["backend"] = "fake"
            args = tuple("fake" if i == 1 else a for i, a in enumerate(args))
            if len(args) > 1:
                kwargs.pop("backend")
            with _disable_current_modes():
                group = plain(ranks, *args, **kwargs)
            members = tuple(range(self.world)) if ranks is None else tuple(int(r) for r in ranks)
            name = str(group.group_name) if isinstance(group, dist.ProcessGroup) else ""
            label = str(kwargs.get("group_desc") or "")  # members alone could ask the group itself
            self.groups.append(CreatedGroup(name, members, label.removeprefix("mesh_")))
            return group

        return new_group

    def _install_meshes(self) -> None:
        """Make meshes compute with real tensors, since fake ones cannot give a rank's coordinates."""

        def outside(plain: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                with _disable_current_modes():
                    return plain(*args, **kwargs)

            return run

        def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                return _PLAIN_MESH("cpu", *args, **kwargs)

        self.patches.replace(_PLAIN_MESH, init_device_mesh)
        mesh = device_mesh.DeviceMesh
        making = ("__getitem__", "_flatten", "_unflatten", "_concatenate", "_get_all_submeshes")
        for name in (*making, "_split_mesh", "__repr__"):
            if name in mesh.__dict__:
                self.patches.wrap(mesh, name, outside)

        def init(plain: Callable[..., Any]) -> Callable[..., Any]:
            def run(self: Any, device_type: Any, *args: Any, **kwargs: Any) -> None:
                with _disable_current_modes():
                    plain(self, "cpu", *args, **kwargs)

            return run

        self.patches.wrap(mesh, "__init__", init)

    # --- objects --------------------------------------------------------------------------------

    def _install_objects(self) -> None:
        for name in (
            "broadcast_object_list",
            "all_gather_object",
            "gather_object",
            "scatter_object_list",
            "monitored_barrier",
            "send_object_list",
            "recv_object_list",
        ):
            standin = getattr(self, f"_{name}")
            for owner in (dist, c10d):
                self.patches.set(owner, name, standin)

    def _members(self, group: Any) -> int:
        return dist.get_world_size(group)

    def _broadcast_object_list(
        self, objects: list[Any], src: Any = None, *_: Any, **__: Any
    ) -> None:
        self.patches.note("torch.distributed.broadcast_object_list: objects of rank 0")
        of_rank_0 = self._exchanged(list(objects))
        if of_rank_0 is not None:
            objects[:] = of_rank_0

    def _exchanged(self, mine: Any) -> Any:
        """Rank 0's objects in the same call; they are known because rank 0 is captured first."""
        name = f"objects {self._objects}"
        self._objects += 1
        if self.rank == 0:
            self.mail.put(name, mine)
        return self.mail.get(name)

    def _all_gather_object(self, gathered: list[Any], mine: Any, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.all_gather_object: every rank as this one")
        gathered[:] = [copy.deepcopy(mine) for _ in gathered]

    def _gather_object(
        self, mine: Any, gathered: list[Any] | None = None, *_: Any, **__: Any
    ) -> None:
        self.patches.note("torch.distributed.gather_object: every rank as this one")
        if gathered is not None:
            gathered[:] = [copy.deepcopy(mine) for _ in gathered]

    def _scatter_object_list(self, out: list[Any], objects: Any = None, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.scatter_object_list: objects of rank 0")
        of_rank_0 = self._exchanged(list(objects) if objects else None)
        if of_rank_0:
            out[0] = of_rank_0[min(self.rank, len(of_rank_0) - 1)]

    def _monitored_barrier(self, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.monitored_barrier")

    def _send_object_list(self, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.send_object_list")

    def _recv_object_list(self, *_: Any, **__: Any) -> int:
        self.patches.note("torch.distributed.recv_object_list: nothing arrives")
        return 0

    # --- which wait completes what --------------------------------------------------------------

    def _call(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = self.recorder
            before = recorder.last_comm
            shared = shared_values(name, args, recorder.real_values)
            work = plain(*args, **kwargs)
            for tensor, value in shared:
                self.patches.note(
                    f"torch.distributed, {name} of host values: every rank as this one"
                )
                recorder.real_values.give(tensor, value)
            if work is not None:
                is_recorded = recorder.recording and recorder.last_comm != before
                filled = tensors([*args[1:2], *kwargs.values()])
                self._works[work] = _Issued(recorder.last_comm if is_recorded else -1, filled)
            return work

        return call

    def _wait(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            issued = self._works.pop(work, None)
            if issued is not None:
                self.recorder.wait(issued.op, "c10d::wait")
            return True

        return wait

    def _get_future(self, work: Any) -> Landed:
        issued = self._works.get(work)
        return Landed([] if issued is None else issued.tensors)


def shared_values(
    name: str, args: tuple[Any, ...], values: RealValues
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What tensors hold after a collective of values that the host knows, if every rank has this one's."""
    size = args[0].size()
    if name == "broadcast":
        pairs = [(t, values.get(t)) for t in tensors(args[1])]
    elif name == "allreduce" and len(args) > 2 and hasattr(args[2], "reduceOp"):
        factor = size if args[2].reduceOp == dist.ReduceOp.SUM else 1
        pairs = [(t, values.get(t)) for t in tensors(args[1])]
        pairs = [(t, None if v is None else _times(v, factor)) for t, v in pairs]
    elif name in ("allgather", "_allgather_base") and len(args) > 2:
        source = values.get(tensors(args[2])[0])
        pairs = [(t, _repeated(source, t)) for t in tensors(args[1])]
    else:
        return []
    with _disable_current_modes():
        return [(t, v.clone()) for t, v in pairs if v is not None]


def _times(value: torch.Tensor, factor: int) -> torch.Tensor:
    with _disable_current_modes():
        return value * factor if value.dtype is not torch.bool else value.clone()


def _repeated(value: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    if value is None or not value.numel() or like.numel() % value.numel():
        return None
    with _disable_current_modes():
        return value.flatten().repeat(like.numel() // value.numel()).view(like.shape)


@dataclass(frozen=True)
class _Issued:
    """The operator of a collective, and the tensors that it fills."""

    op: int
    tensors: list[torch.Tensor]


_PLAIN_INIT = dist.init_process_group
_PLAIN_MESH = device_mesh.init_device_mesh
