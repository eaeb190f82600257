"""Tensors for operators that are made from shapes alone: memory that is as cold or warm as it would be."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.replayer.compile.memory import MADE_UP
from chakrakit.replayer.plan import Tensor

_SMALL = 1 << 20
"""Tensors up to this size stay in a device's cache whoever made them: one storage serves all alike."""
_COLD = 1 << 28
"""After so many other bytes nothing is left in the cache of any device there is (the largest are under
100 MB), and a storage can be used again without being faster for it."""


class Pool:
    """Hands out storages. One of over a megabyte is used again only when it is cold."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._traffic = 0
        self._last: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """(type, bytes) → (storage, traffic when it was last used)."""
        self._count = 0
        self._now: set[int] = set()

    def begin(self) -> None:
        """Another operator begins: what the one before was given may be used again."""
        self._now = set()

    def tensor(self, dtype: str, shape: Sequence[int], strides: Sequence[int] = ()) -> Tensor:
        """A tensor of this geometry; contiguous where no strides are given."""
        steps = tuple(strides) if len(strides) == len(shape) else contiguous(shape)
        found = Tensor(0, self._device, dtype, tuple(shape), steps, 0)
        return found._replace(storage=self._storage(dtype, found.extent))

    def _storage(self, dtype: str, size: int) -> int:
        known = self._last.setdefault((dtype, size), [])
        self._traffic += size
        for place, (storage, used) in enumerate(known):
            free = storage not in self._now
            if free and (size <= _SMALL or self._traffic - used > _COLD + size):
                known[place] = (storage, self._traffic)
                self._now.add(storage)
                return storage
        self._count += 1
        made = MADE_UP - self._count
        known.append((made, self._traffic))
        self._now.add(made)
        return made


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor without holes, the last dimension fastest."""
    out, step = [], 1
    for size in reversed(shape):
        out.append(step)
        step *= max(int(size), 1)
    return tuple(reversed(out))
