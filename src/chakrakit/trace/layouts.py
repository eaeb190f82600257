"""Which attributes a row has, in which order and oneof members: what a table alone does not say.

A trace has a handful of distinct layouts. Rows refer to them by number in the private column `_layout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

HAS_INPUTS, HAS_OUTPUTS = 1, 2
RAW = -1

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Layout:
    """The attributes of a row in file order: (name, member), or (None, 0) for one kept raw."""

    flags: int = 0
    entries: tuple[tuple[str | None, int], ...] = ()

    def with_entry(self, name: str, member: int) -> Layout:
        """The same with one more attribute at the end."""
        return Layout(self.flags, (*self.entries, (name, member)))

    def without(self, name: str) -> Layout:
        """The same less one attribute."""
        return Layout(self.flags, tuple(e for e in self.entries if e[0] != name))


@dataclass(frozen=True)
class Layouts:
    """An immutable list of layouts, numbered from 0."""

    items: tuple[Layout, ...] = field(default=(Layout(),))

    @classmethod
    def from_core(
        cls, names: list[str], flags: Any, offsets: Ints, columns: Ints, members: Any
    ) -> Layouts:
        """From the decoder's flat arrays; columns are numbers into `names`."""
        pairs = [
            (None if c < 0 else names[c], int(m))
            for c, m in zip(columns.tolist(), members.tolist(), strict=True)
        ]
        bounds = offsets.tolist()
        return cls(
            tuple(
                Layout(int(f), tuple(pairs[a:b]))
                for f, a, b in zip(flags.tolist(), bounds, bounds[1:], strict=False)
            )
        )

    def to_core(self, number_of: Mapping[str, int]) -> tuple[NDArray[np.generic], ...]:
        """Flat arrays (flags, offsets, columns, members) for the encoder."""
        entries = [e for item in self.items for e in item.entries]
        sizes = [len(item.entries) for item in self.items]
        return (
            np.array([item.flags for item in self.items], np.uint8),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int32),
            np.array([RAW if n is None else number_of[n] for n, _ in entries], np.int32),
            np.array([m for _, m in entries], np.int8),
        )

    @cached_property
    def _number(self) -> dict[Layout, int]:
        return {item: i for i, item in enumerate(self.items)}

    def merge(self, other: Layouts) -> tuple[Layouts, Ints]:
        """These and the other's; and for each of the other's its new number."""
        if other is self:
            return self, np.arange(len(self.items), dtype=np.int32)
        items, number = list(self.items), dict(self._number)
        renumbered = np.array([_number_of(item, items, number) for item in other.items], np.int32)
        return (self if len(items) == len(self.items) else Layouts(tuple(items))), renumbered

    def used(self, rows: Ints) -> tuple[Layouts, Ints]:
        """Only the layouts that `rows` refer to, and the rows renumbered."""
        kept, inverse = np.unique(rows, return_inverse=True)
        return Layouts(tuple(self.items[i] for i in kept)), inverse.astype(np.int32)

    def names(self) -> list[str]:
        """Attribute names in order of first mention."""
        seen: dict[str, None] = {}
        for item in self.items:
            for name, _ in item.entries:
                if name is not None:
                    seen.setdefault(name)
        return list(seen)

    def has(self, name: str) -> NDArray[np.bool_]:
        """For each layout, whether it has this attribute."""
        return np.array([any(n == name for n, _ in i.entries) for i in self.items], np.bool_)

    def edited(
        self, rows: Ints, name: str, present: NDArray[np.bool_], member: int
    ) -> tuple[Layouts, Ints]:
        """Layouts and row numbers after attribute `name` became present exactly where said."""
        has = self.has(name)[rows]
        changed = has != present
        if not changed.any():
            return self, rows
        items, number = list(self.items), dict(self._number)
        edited = rows.copy()
        for old in np.unique(rows[changed]):
            item = self.items[old]
            new = item.with_entry(name, member) if not self.has(name)[old] else item.without(name)
            edited[changed & (rows == old)] = _number_of(new, items, number)
        return Layouts(tuple(items)), edited

    def to_plain(self) -> list[list[object]]:
        """For JSON: [[flags, [[name, member], …]], …]."""
        return [[i.flags, [list(e) for e in i.entries]] for i in self.items]

    @classmethod
    def from_plain(cls, plain: Iterable[tuple[int, list[tuple[str | None, int]]]]) -> Layouts:
        """The inverse of to_plain()."""
        return cls(tuple(Layout(f, tuple((n, int(m)) for n, m in es)) for f, es in plain))


def _number_of(item: Layout, items: list[Layout], number: dict[Layout, int]) -> int:
    """The item's number, appending it if it is new."""
    found = number.get(item)
    if found is None:
        found = number[item] = len(items)
        items.append(item)
    return found
