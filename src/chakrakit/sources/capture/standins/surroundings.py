"""What a script does besides computing: files, data, networks, clocks."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import checkpoint
from torch.multiprocessing import spawn as spawned
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.data import DataLoader, dataloader

from chakrakit.errors import ConfigError
from chakrakit.sources.capture.observing import RealValues, Storages
from chakrakit.sources.capture.recording import Patches, script_line


def install(
    patches: Patches, rank: int, real_values: RealValues, storages: Storages | None = None
) -> None:
    """Stub what has effects outside, and let data loaders run as they are."""
    _install_checkpoints(patches)
    _install_data(patches, real_values, storages or Storages())
    _install_network(patches)
    _install_processes(patches, rank)
    _install_threads(patches)


def _install_threads(patches: Patches) -> None:
    """Answer with the number of threads that the script asks for, and go on with one.

    The others did not come along when the process was forked, and work given to them would never end.
    """
    asked = [torch.get_num_threads()]
    patches.set(torch, "set_num_threads", lambda count: asked.__setitem__(0, int(count)))
    patches.set(torch, "get_num_threads", lambda: asked[0])


def _install_processes(patches: Patches, rank: int) -> None:
    """Run the function of `torch.multiprocessing.spawn` in this process, as the rank that is captured."""

    def start(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        *_: Any,
        **__: Any,
    ) -> None:
        patches.note("torch.multiprocessing.spawn: this rank's process alone, in place")
        fn(rank % nprocs, *args)

    module = sys.modules[spawned.__module__]
    for name in ("spawn", "start_processes"):
        patches.replace(getattr(module, name), start)


def _install_checkpoints(patches: Patches) -> None:
    for name in ("save", "async_save", "save_state_dict"):
        patches.stub(checkpoint, name, f"torch.distributed.checkpoint.{name}")


class _Loading(TorchDispatchMode):
    """Loads data for real: of fake tensors, such as those of a data set made in the script, their values."""

    def __init__(self, real_values: RealValues) -> None:
        super().__init__()
        self.real_values = real_values

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        fake = any(issubclass(kind, FakeTensor) for kind in types)
        known = self.real_values.compute(func, args, kwargs or {}) if fake else None
        return func(*args, **(kwargs or {})) if known is None else known


def _install_data(patches: Patches, real_values: RealValues, storages: Storages) -> None:
    """Load data for real, with real tensors, in this process."""
    pins = WeakSet[Any]()
    """Loaders that hand out pinned memory, and iterators over them."""

    def real(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes(), _Loading(real_values):
                made = plain(self, *args, **kwargs)
            if self in pins:
                if isinstance(made, dataloader._BaseDataLoaderIter):
                    pins.add(made)
                for tensor in pytree.tree_leaves(made):
                    if isinstance(tensor, torch.Tensor):
                        storages.keep_on_host(tensor, pinned=True)
            return made

        return run

    def alone(plain: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            changed = {
                "num_workers": 0,
                "pin_memory": False,
                "persistent_workers": False,
                "prefetch_factor": None,
                "timeout": 0,
                "multiprocessing_context": None,
            }
            if kwargs.get("num_workers"):
                patches.note("torch.utils.data.DataLoader: worker processes")
            if kwargs.get("pin_memory"):
                pins.add(self)
            kwargs.update({k: v for k, v in changed.items() if k in kwargs})
            plain(self, *args, **kwargs)

        return init

    patches.wrap(DataLoader, "__init__", alone)
    patches.wrap(DataLoader, "__iter__", real)
    for iterator in (dataloader._BaseDataLoaderIter, dataloader._SingleProcessDataLoaderIter):
        for name in ("__init__", "__next__"):
            if name in iterator.__dict__:
                patches.wrap(iterator, name, real)


def _install_network(patches: Patches) -> None:
    """Refuse network connections, with the line of the script that makes them."""

    def refuse(plain: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: Any, address: Any, *args: Any) -> Any:
            if self.family == getattr(socket, "AF_UNIX", None):
                return plain(self, address, *args)
            raise ConfigError(
                f"{script_line()}: the script connects to {_address_text(address)}; "
                "a capture has no network. Leave that part out, for example by an option of the script"
            )

        return connect

    def refuse_name(_: Callable[..., Any]) -> Callable[..., Any]:
        def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
            if host in (None, "", "localhost", "127.0.0.1", "0.0.0.0", socket.gethostname()):
                return _LOOK_UP(host, *args, **kwargs)
            raise ConfigError(
                f"{script_line()}: the script connects to {host}; a capture has no network. "
                "Leave that part out, for example by an option of the script"
            )

        return look_up

    for name in ("connect", "connect_ex"):
        patches.wrap(socket.socket, name, refuse)
    patches.wrap(socket, "getaddrinfo", refuse_name)


_LOOK_UP = socket.getaddrinfo


def _address_text(address: Any) -> str:
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
