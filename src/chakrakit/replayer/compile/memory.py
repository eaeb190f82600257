"""Storages over a step: who made each, how long it is needed, and which slot holds which view of it.

The recorded number of a storage is its address, which is used again once it is free. A storage made by
an operator is therefore a new *version* of its number; one that nobody was seen to make is *external*:
it was there before the step (parameters, optimizer state, batches) and stays for all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chakrakit.replayer.plan import External, Fill, View
from chakrakit.replayer.tensors import INTEGERS, StorageView

Geometry = tuple[str, tuple[int, ...], tuple[int, ...], int]
Key = tuple[str, int]
MADE_UP = -(1 << 50)
"""Storage numbers below this are of tensors that no recording has."""


@dataclass(eq=False)
class Version:
    """One life of a storage. `slots` holds the views of it that exist, by geometry."""

    device: str
    bytes: int
    external: bool
    dtype: str
    slots: dict[Geometry, int] = field(default_factory=dict)
    copied_from: list[Version] = field(default_factory=list)
    """Whose values these are: what limits an index limits what it was copied from."""
    limit: int = 0
    positive: bool = False
    unit: bool = False
    """Factors of a normalisation, which begin as 1."""
    unset: bool = False
    """Made for an operator of which only shapes are known."""
    pinned: bool = False
    first: int = -1
    last: int = -1
    """First and last step that needs it."""


def geometry(tensor: StorageView) -> Geometry:
    """What two views of one storage must share to be the same."""
    return tensor.dtype, tensor.shape, tensor.strides, tensor.offset


class PlanMemory:
    """Follows storages through the steps of a plan and gives each view a slot.

    `read` and `made` are called in the order of the steps; both give slots. `last_use` says after
    which step a slot is needed no more.
    """

    def __init__(self) -> None:
        self.current: dict[Key, Version] = {}
        self.versions: list[Version] = []
        self.external_views: list[tuple[int, Version, Geometry]] = []
        self.last_use: dict[int, int] = {}
        self.version_of: dict[int, Version] = {}
        self._now: tuple[int, set[int]] = (-1, set())

    def find(self, tensor: StorageView) -> Version:
        """The version a tensor that is read lies in; external if nobody made one that large."""
        key = (tensor.device, tensor.storage)
        found = self.current.get(key)
        if found is None or not _holds(found, tensor):
            found = self._new(key, tensor, external=True)
        if found.external:
            found.bytes = max(found.bytes, tensor.extent)
        return found

    def _new(self, key: Key, tensor: StorageView, *, external: bool) -> Version:
        found = Version(tensor.device, tensor.extent, external, tensor.dtype)
        found.unset = tensor.storage < MADE_UP
        self.current[key] = found
        self.versions.append(found)
        return found

    def read(self, tensor: StorageView, step: int) -> tuple[int, View | None]:
        """The slot of a tensor that is read, and how to make it first where there is none."""
        version = self.find(tensor)
        shape = geometry(tensor)
        slot = version.slots.get(shape)
        made = None
        if slot is None:
            slot = self._slot(version, shape)
            if version.external:
                self.external_views.append((slot, version, shape))
            else:
                base = next(iter(version.slots.values()))
                self.last_use[base] = step
                dtype, sizes, strides, offset = _lists(shape)
                made = View(
                    base=base, slot=slot, dtype=dtype, shape=sizes, strides=strides, offset=offset
                )
        self.use(slot, step)
        return slot, made

    def _slot(self, version: Version, shape: Geometry) -> int:
        slot = len(self.version_of)
        version.slots[shape] = slot
        self.version_of[slot] = version
        return slot

    def use(self, slot: int, step: int) -> None:
        """A step needs this slot."""
        self.last_use[slot] = step
        version = self.version_of[slot]
        version.first = step if version.first < 0 else version.first
        version.last = step
        if self._now[0] != step:
            self._now = (step, set())
        self._now[1].add(id(version))

    def made(self, tensor: StorageView, inputs: Iterable[Version], step: int) -> int | None:
        """The slot for an operator's result; None for one that some slot holds already.

        A result in an input's storage is a view of it; any other is a new storage.
        """
        key = (tensor.device, tensor.storage)
        version = self.current.get(key)
        if version is None or not any(version is v for v in inputs):
            version = self._new(key, tensor, external=False)
        elif not version.external:
            version.bytes = max(version.bytes, tensor.extent)
        shape = geometry(tensor)
        if shape in version.slots:
            self.use(version.slots[shape], step)
            return None
        slot = self._slot(version, shape)
        self.use(slot, step)
        return slot

    def forget(self, key: Key) -> None:
        """Something inside an operator took this storage's address: the old one was free."""
        self.current.pop(key, None)

    def limit_index(self, version: Version, limit: int) -> None:
        """Values of this storage are indices below `limit`, and so are those they were copied from."""
        seen, todo = set(), [version]
        while todo:
            found = todo.pop()
            if id(found) in seen:
                continue
            seen.add(id(found))
            found.limit = min(found.limit or limit, limit)
            todo += found.copied_from

    def used_now(self, step: int) -> set[int]:
        """Versions (by `id`) that this step has used so far."""
        if self._now[0] != step:
            return set()
        return self._now[1]

    def externals(self, device: Callable[[str], str]) -> list[External]:
        """What must be there before the first step, and its views."""
        views: dict[int, list[tuple[int, Geometry]]] = {}
        for slot, version, shape in self.external_views:
            views.setdefault(id(version), []).append((slot, shape))
        return [
            External(
                v.bytes,
                device(v.device),
                v.dtype,
                _fill(v),
                [(s, *_lists(g)) for s, g in views[id(v)]],
                v.pinned,
            )
            for v in self.versions
            if id(v) in views
        ]

    def peak(self, steps: int, device: Callable[[str], str]) -> dict[str, int]:
        """Most bytes held at once, by device: externals all the time, the rest while needed."""
        change: dict[str, list[int]] = {}
        for v in self.versions:
            if not v.external and v.first < 0:
                continue
            line = change.setdefault(device(v.device), [0] * (steps + 2))
            line[0 if v.external else v.first] += v.bytes
            if not v.external:
                line[v.last + 1] -= v.bytes
        return {where: _largest_sum(line) for where, line in change.items()}


def _holds(version: Version, tensor: StorageView) -> bool:
    """Whether a tensor can lie there. One that is larger or of another type was never seen made."""
    if geometry(tensor) in version.slots:
        return True
    return tensor.dtype == version.dtype and (version.external or tensor.extent <= version.bytes)


def _largest_sum(changes: list[int]) -> int:
    total = largest = 0
    for change in changes:
        total += change
        largest = max(largest, total)
    return largest


def _lists(shape: Geometry) -> tuple[str, list[int], list[int], int]:
    dtype, sizes, strides, offset = shape
    return dtype, list(sizes), list(strides), offset


def _fill(version: Version) -> Fill:
    """Values that no operator chokes on: indices in range, variances positive, masks open."""
    if version.dtype in INTEGERS:
        nothing = Fill("unset" if version.unset else "zero")
        return Fill("index", version.limit) if version.limit else nothing
    if version.dtype == "bool":
        return Fill("one")
    if version.unit:
        return Fill("one")
    return Fill("positive") if version.positive else Fill("normal")


# Tensors for operators that are made from shapes alone: memory that is as cold or warm as it would be.


_SMALL = 1 << 20
"""Tensors up to this size stay in a device's cache whoever made them: one storage serves all alike."""
_COLD = 1 << 28
"""After so many other bytes nothing is left in the cache of any device there is (the largest are under
100 MB), and a storage can be used again without being faster for it."""


class StoragePool:
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

    def tensor(self, dtype: str, shape: Sequence[int], strides: Sequence[int] = ()) -> StorageView:
        """A tensor of this geometry; contiguous where no strides are given."""
        steps = tuple(strides) if len(strides) == len(shape) else contiguous(shape)
        found = StorageView(0, self._device, dtype, tuple(shape), steps, 0)
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
