"""torch.distributed without peers: fake process groups, meshes outside fake tensors, objects, waits."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeWork
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing import Recorder, tensors
from chakrakit.sources.capture.recording import Group, Patches

# Futures of communication that nobody carries out; what follows them runs when it is waited for.


class Landed(torch.futures.Future[Any]):
    """What a collective gave.

    On a GPU, functions that follow run on a stream of their own once the collective is done. Run at once,
    they would stand between the operators that the program issues next; here they run when somebody waits.
    """

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.set_result(value)

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of what the function makes of this one."""
        return Later(self, callback)


class Later(torch.futures.Future[Any]):
    """What a function makes of another future, run once, when it is asked for."""

    def __init__(self, source: Any, callback: Callable[[Any], Any]) -> None:
        super().__init__()
        self._source, self._callback = source, callback

    def wait(self) -> Any:
        """Run the function, unless it has been."""
        if not super().done():
            self._source.wait()
            made = self._callback(self._source)
            self.set_result(made.wait() if isinstance(made, torch.futures.Future) else made)
        return super().value()

    value = wait

    def done(self) -> bool:
        """It can always be run."""
        return True

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of what the function makes of this one."""
        return Later(self, callback)


# Mail: what one rank tells the others in words, kept from one capture to the next.


class Mail:
    """Pickled values by name. What earlier captures `put` is there for later ones to `get`.

    All of it is made and read by processes of this very capture.
    """

    def __init__(self, received: Mapping[str, bytes]) -> None:
        self.received = dict(received)
        self.sent: dict[str, bytes] = {}

    def put(self, name: str, value: Any) -> None:
        """Tell the ranks captured after this one; what cannot be pickled stays untold."""
        try:
            self.sent[name] = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
            self.sent.pop(name, None)

    def get(self, name: str) -> Any:
        """What somebody told, or None."""
        found = self.sent.get(name) or self.received.get(name)
        return None if found is None else pickle.loads(found)

    def names(self) -> list[str]:
        """Everything there is."""
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
    """One rank of `world`, with everybody else imagined.

    `groups` lists every process group in the order in which all ranks make them. Objects sent from rank 0
    reach the ranks captured after it by `mail`.
    """

    def __init__(
        self, patches: Patches, rank: int, world: int, recorder: Recorder, mail: Mail
    ) -> None:
        self.patches, self.rank, self.world, self.recorder = patches, rank, world, recorder
        self.mail = mail
        self.groups: list[Group] = []
        self._objects = 0
        self._works: weakref.WeakKeyDictionary[Any, _Issued] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Replace what needs peers."""
        self.patches.replace(_PLAIN_INIT, self._init)
        self.patches.wrap(c10d, "_new_group_with_tag", self._logged)
        self._install_meshes()
        self._install_objects()
        for name in _CALLS:
            self.patches.wrap(dist.ProcessGroup, name, self._call)
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
        self.groups.append(Group(str(c10d._get_default_group().group_name), world, "world"))

    def _logged(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
            kwargs["backend"] = "fake"
            args = tuple("fake" if i == 1 else a for i, a in enumerate(args))
            if len(args) > 1:
                kwargs.pop("backend")
            with _disable_current_modes():
                made = plain(ranks, *args, **kwargs)
            members = tuple(range(self.world)) if ranks is None else tuple(int(r) for r in ranks)
            name = str(made.group_name) if isinstance(made, dist.ProcessGroup) else ""
            label = str(kwargs.get("group_desc") or "")  # members alone could ask the group itself
            self.groups.append(Group(name, members, label.removeprefix("mesh_")))
            return made

        return new_group

    def _install_meshes(self) -> None:
        """A mesh counts with real tensors: under fake ones nobody knows a rank's coordinates."""

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
            found = getattr(self, f"_{name}")
            for owner in (dist, c10d):
                self.patches.set(owner, name, found)

    def _members(self, group: Any) -> int:
        return dist.get_world_size(group)

    def _broadcast_object_list(
        self, objects: list[Any], src: Any = None, *_: Any, **__: Any
    ) -> None:
        self.patches.note("torch.distributed.broadcast_object_list: objects of rank 0")
        found = self._exchanged(list(objects))
        if found is not None:
            objects[:] = found

    def _exchanged(self, mine: Any) -> Any:
        """Rank 0's objects of the same call; rank 0 is captured first."""
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

    def _scatter_object_list(self, out: list[Any], given: Any = None, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.scatter_object_list: objects of rank 0")
        found = self._exchanged(list(given) if given else None)
        if found:
            out[0] = found[min(self.rank, len(found) - 1)]

    def _monitored_barrier(self, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.monitored_barrier")

    def _send_object_list(self, *_: Any, **__: Any) -> None:
        self.patches.note("torch.distributed.send_object_list")

    def _recv_object_list(self, *_: Any, **__: Any) -> int:
        self.patches.note("torch.distributed.recv_object_list: nothing arrives")
        return 0

    # --- which wait completes what --------------------------------------------------------------

    def _call(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = self.recorder
            before = recorder.last_comm
            work = plain(*args, **kwargs)
            if work is not None:
                seen = recorder.recording and recorder.last_comm != before
                given = tensors([*args[1:2], *kwargs.values()])
                self._works[work] = _Issued(recorder.last_comm if seen else -1, given)
            return work

        return call

    def _wait(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            found = self._works.pop(work, None)
            if found is not None:
                self.recorder.wait(found.op, "c10d::wait")
            return True

        return wait

    def _get_future(self, work: Any) -> Landed:
        found = self._works.get(work)
        return Landed([] if found is None else found.given)


@dataclass(frozen=True)
class _Issued:
    """The operator of a collective, and the tensors that it fills."""

    op: int
    given: list[torch.Tensor]


_PLAIN_INIT = dist.init_process_group
_PLAIN_MESH = device_mesh.init_device_mesh
