"""Storages: which of them hold memory when, how much is held now and how much at most."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from chakrakit.sources.capture.recording import NeedsValue, script_line

_BLOCK = 512
"""Bytes: `kMinBlockSize` of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator)."""


def rounded(size: int) -> int:
    """Bytes that PyTorch's caching allocator counts for a request: multiples of 512."""
    return -(-size // _BLOCK) * _BLOCK if size else 0


class Storages:
    """Numbers every storage when it is first seen and counts its bytes until it dies.

    `live` is what is held now on the device, `peak` its maximum since `restart()`. A storage is on the
    device if it was made there (`mark`), or by an operator that read one that is. Where the script never
    uses a device, the host stands in for it and everything counts.
    """

    def __init__(self) -> None:
        self.live = self.peak = 0
        self.freed = 0
        """Bytes freed since a reader last set this to 0."""
        self.everything = True
        self.leaving = False
        """Whether the program is copying a tensor to the host."""
        self.leaving_to_pinned = False
        """Whether it does so to pinned memory."""
        self.arriving = False
        """Whether what is made now is made on the device: set while a call that names it runs."""
        self._numbers: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._watch: dict[int, Any] = {}
        self._shared: dict[int, Any] = {}
        self._device: set[int] = set()
        self._host: set[int] = set()
        self._pinned: set[int] = set()
        self._next = 0
        self.on_death: Callable[[int], None] | None = None
        """Told the number of every storage that dies, while operators of compiled calls are recorded."""

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage."""
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:
            raise NeedsValue(
                f"{script_line()}: a tensor of layout {str(tensor.layout).removeprefix('torch.')} has a size "
                "that depends on values, and nothing is computed; use a dense one (an Embedding with "
                "sparse=False and an optimizer for dense gradients)"
            ) from None
        key = storage._cdata
        number = self._numbers.get(key)
        return self._new(storage, key) if number is None else number

    def has_number(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage has a number already."""
        return tensor.untyped_storage()._cdata in self._numbers

    def _new(self, storage: Any, key: int) -> int:
        number = self._next
        self._next += 1
        self._numbers[key] = number
        self._watch[number] = weakref.ref(storage, lambda _: self._dead(key, number))
        size = rounded(storage.nbytes())
        self._sizes[number] = size
        if self.everything:
            self._hold(number, size)
        return number

    def share(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """Let a tensor's storage be another's: it adds no memory and has its number."""
        storage = tensor.untyped_storage()
        key = storage._cdata

        def forget(_: Any) -> None:
            self._numbers.pop(key, None)
            self._shared.pop(key, None)

        self._numbers[key] = self.number(other)
        self._shared[key] = weakref.ref(storage, forget)

    def _hold(self, number: int, size: int) -> None:
        self._device.add(number)
        self.live += size
        self.peak = max(self.peak, self.live)

    def hold_always(self, size: int) -> None:
        """Count memory that a library keeps until the end."""
        self.live += size
        self.peak = max(self.peak, self.live)

    def hold_briefly(self, size: int) -> None:
        """Count memory that an operator takes only while it runs."""
        self.peak = max(self.peak, self.live + size)

    def mark(self, number: int) -> None:
        """Count a storage as being on the device."""
        if number not in self._device and number in self._sizes:
            self._hold(number, self._sizes[number])

    def keep_on_host(self, tensor: torch.Tensor, *, pinned: bool = False) -> None:
        """A tensor that the program has made on the host: it is no memory of the device's."""
        number = self.number(tensor)
        self._host.add(number)
        if pinned:
            self._pinned.add(number)

    def on_host(self, number: int) -> bool:
        """Whether the program has made a storage on the host, and nothing has used it on the device."""
        return number in self._host and number not in self._device

    def is_pinned(self, number: int) -> bool:
        """Whether a storage lies in pinned memory of the host."""
        return number in self._pinned

    def leave(self, number: int) -> None:
        """Count a storage as being on the host: a copy of what is on the device."""
        if number in self._device:
            self._device.discard(number)
            self.live -= self._sizes[number]

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is on the device, which the script must have named."""
        if self.everything:
            return False
        return self._numbers.get(tensor.untyped_storage()._cdata, -1) in self._device

    def on_device(self, number: int) -> bool:
        """Whether a storage is on the device."""
        return number in self._device

    def size(self, number: int) -> int:
        """Bytes of a storage that is alive and on the device."""
        return self._sizes.get(number, 0) if number in self._device else 0

    def _dead(self, key: int, number: int) -> None:
        self._numbers.pop(key, None)
        self._watch.pop(number, None)
        size = self._sizes.pop(number, 0)
        self._host.discard(number)
        self._pinned.discard(number)
        if number in self._device:
            self._device.discard(number)
            self.live -= size
            self.freed += size
            if self.on_death is not None:
                self.on_death(number)

    def resized(self, tensor: torch.Tensor) -> None:
        """A storage changed its size in place, as FSDP's unsharded parameters do."""
        number = self.number(tensor)
        size = rounded(tensor.untyped_storage().nbytes())
        before = self._sizes[number]
        self._sizes[number] = size
        if number in self._device:
            self.live += size - before
            self.freed += max(before - size, 0)
            self.peak = max(self.peak, self.live)

    def restart(self) -> None:
        """Start a new peak at what is held now."""
        self.peak, self.freed = self.live, 0

    def only_device(self) -> None:
        """From now on count only what is marked, since the script uses a device."""
        if self.everything:
            self.everything = False
            self.live = self.peak = 0
            self._device.clear()
