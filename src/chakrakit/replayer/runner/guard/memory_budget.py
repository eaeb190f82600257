"""How much memory a replay may take: what the machine has, and what tensors really hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..limits import check_memory, host_memory

_SHARE = 0.95


class MemoryBudget:
    """Bytes that live storages hold, by device, and how many there may be.

    Storages are known by their address: one that is freed gives its bytes back when its last slot
    is emptied.
    """

    def __init__(self, limits: dict[str, int]) -> None:
        self.limits = limits
        self._held: dict[str, int] = dict.fromkeys(limits, 0)
        self._slots: dict[int, tuple[str, int]] = {}
        self._storages: dict[tuple[str, int], tuple[int, set[int]]] = {}

    def ask(self, where: str, size: int) -> None:
        """Refuse more than there is, before it is taken."""
        kind = where.partition(":")[0]
        check_memory(self._held.get(kind, 0) + size, self.limits.get(kind, 0), _named(kind))

    def put(self, slot: int, tensor: Any) -> None:
        """A slot holds this tensor now."""
        self.drop(slot)
        storage = tensor.untyped_storage()
        key = (tensor.device.type, storage.data_ptr())
        size, slots = self._storages.get(key, (0, set()))
        self._held[key[0]] = self._held.get(key[0], 0) + storage.nbytes() - size
        self._storages[key] = (storage.nbytes(), slots | {slot})
        self._slots[slot] = key

    def drop(self, slot: int) -> None:
        """A slot was emptied."""
        key = self._slots.pop(slot, None)
        if key is None:
            return
        size, slots = self._storages[key]
        slots.discard(slot)
        if not slots:
            self._held[key[0]] -= size
            del self._storages[key]


def memory_budget(torch: Any, device: str, sharing: int) -> MemoryBudget:
    """What one of `sharing` ranks on this machine may take of host and device."""
    limits = {"cpu": int(host_memory() * _SHARE) // max(sharing, 1)}
    if device.startswith("cuda"):
        on_each = -(-sharing // torch.cuda.device_count())
        limits["cuda"] = int(torch.cuda.mem_get_info()[0] * _SHARE) // on_each
    return MemoryBudget(limits)


def limit_process(budget: MemoryBudget, on_device: bool) -> None:
    """A second wall around a rank: no core files, and on a host no more memory than its budget.

    A device's driver reserves addresses far beyond what it uses, so there is no such wall beside one.
    """
    try:
        import resource
    except ImportError:  # not on every system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if on_device:
        return
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    most = now + budget.limits["cpu"] + _SLACK
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


_SLACK = 4 << 30
"""Addresses that threads and libraries reserve beside tensors."""


def _named(kind: str) -> str:
    return "the GPU" if kind == "cuda" else "this machine"
