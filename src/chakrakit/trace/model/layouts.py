"""Which attributes a row has, in which order and oneof members: what a table alone does not say.

A trace has a handful of distinct layouts. Rows refer to them by number in the private column
`_layout`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.arrays import I8, I32, U8, Mask
from chakrakit.errors import FormatError
from chakrakit.trace.model import wire

HAS_INPUTS, HAS_OUTPUTS = 1, 2
RAW = -1
"""The core's column number for an attribute that is kept raw."""


@dataclass(frozen=True)
class Layout:
    """The attributes of a row in file order: (name, member), or (None, 0) for one kept raw."""

    flags: int = 0
    entries: tuple[tuple[str | None, int], ...] = ()

    def with_entry(self, name: str, member: int) -> Layout:
        """The same with one more attribute at the end."""
        return Layout(self.flags, (*self.entries, (name, member)))

    def without(self, name: str) -> Layout:
        """The same without one attribute."""
        return Layout(self.flags, tuple(e for e in self.entries if e[0] != name))

    def with_raw(self, stays: list[bool]) -> Layout:
        """The same with some of the raw attributes; `stays` has one flag for each, in order."""
        order = iter(stays)
        return Layout(self.flags, tuple(e for e in self.entries if e[0] is not None or next(order)))

    def with_member(self, name: str, member: int) -> Layout:
        """The same with one attribute in another member."""
        return Layout(self.flags, tuple((n, member if n == name else m) for n, m in self.entries))


@dataclass(frozen=True)
class Layouts:
    """An immutable list of layouts, numbered from 0."""

    items: tuple[Layout, ...] = field(default=(Layout(),))

    @classmethod
    def from_core(
        cls, names: list[str], flags: U8, offsets: I32, columns: I32, members: I8
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

    def merge(self, other: Layouts) -> tuple[Layouts, I32]:
        """The layouts of both, each once, and the new number of each of the other's."""
        if other is self:
            return self, np.arange(len(self.items), dtype=np.int32)
        items, number = list(self.items), dict(self._number)
        renumbered = np.array([_number_of(item, items, number) for item in other.items], np.int32)
        return (self if len(items) == len(self.items) else Layouts(tuple(items))), renumbered

    def used(self, rows: I32) -> tuple[Layouts, I32]:
        """Only the layouts that `rows` refer to, and the rows renumbered."""
        counts = np.bincount(rows, minlength=len(self.items))
        if len(counts) > len(self.items):
            raise FormatError("a row refers to a layout that is not there")
        used_numbers = np.flatnonzero(counts)
        if len(used_numbers) == len(self.items):
            return self, rows
        number = np.cumsum(counts > 0, dtype=np.int32) - np.int32(1)
        return Layouts(tuple(self.items[i] for i in used_numbers)), number[rows]

    def names(self) -> list[str]:
        """Attribute names in order of first mention."""
        attribute_names: dict[str, None] = {}
        for item in self.items:
            for name, _ in item.entries:
                if name is not None:
                    attribute_names.setdefault(name)
        return list(attribute_names)

    def members(self, name: str) -> I8:
        """For each layout, the member this attribute has; 0 where it is not there."""
        members = (next((m for n, m in i.entries if n == name), 0) for i in self.items)
        return np.fromiter(members, np.int8, len(self.items))

    def edited(
        self, rows: I32, name: str, present: Mask, member: int, allowed_members: Collection[int]
    ) -> tuple[Layouts, I32]:
        """Layouts and row numbers after attribute `name` became present exactly in the rows of `present`.

        A row that had it already keeps its member if that is one of `allowed_members`.
        """
        before = self.members(name)
        stale = ~np.isin(before, [0, *allowed_members])
        changed = ((before != 0)[rows] != present) | (present & stale[rows])
        if not changed.any():
            return self, rows
        items, number = list(self.items), dict(self._number)
        with_it = np.arange(len(items), dtype=np.int32)
        without_it = with_it.copy()
        for old in np.flatnonzero(np.bincount(rows[changed], minlength=len(items))):
            item = self.items[old]
            if before[old]:
                without_it[old] = _number_of(item.without(name), items, number)
            if not before[old] or stale[old]:
                new = item.with_member if before[old] else item.with_entry
                with_it[old] = _number_of(new(name, member), items, number)
        return Layouts(tuple(items)), np.where(present, with_it[rows], without_it[rows])

    def to_plain(self) -> list[list[object]]:
        """For JSON: [[flags, [[name, member], …]], …]."""
        return [[i.flags, [list(e) for e in i.entries]] for i in self.items]

    @classmethod
    def from_plain(cls, plain: Iterable[tuple[int, list[tuple[str | None, int]]]]) -> Layouts:
        """The inverse of to_plain()."""
        return cls(tuple(Layout(f, tuple((n, int(m)) for n, m in es)) for f, es in plain))


def _number_of(item: Layout, items: list[Layout], number: dict[Layout, int]) -> int:
    """The item's number, appending it if it is new."""
    place = number.get(item)
    if place is None:
        place = number[item] = len(items)
        items.append(item)
    return place


# Attributes kept as bytes, since no column could hold them; each has its length before it.

RAW_COLUMN = "_raw"


def without_raw(
    table: pa.Table, layouts: Layouts, rows: I32, name: str
) -> tuple[pa.Table, Layouts, I32]:
    """Table, layouts and rows' layout numbers without the attributes of this name kept as bytes."""
    if RAW_COLUMN not in table.column_names:
        return table, layouts, rows
    column: list[bytes | None] = table.column(RAW_COLUMN).to_pylist()
    changed: dict[int, Layout] = {}
    for row, data in enumerate(column):
        if data is None or name.encode() not in data:
            continue
        stays = [_name(message) != name for message in wire.frames(data)]
        if not all(stays):
            remaining = (m for m, stay in zip(wire.frames(data), stays, strict=True) if stay)
            column[row] = b"".join(map(wire.frame, remaining)) or None
            changed[row] = layouts.items[rows[row]].with_raw(stays)
    if not changed:
        return table, layouts, rows
    layouts, numbers = layouts.merge(Layouts(tuple(changed.values())))
    rows = rows.copy()
    rows[list(changed)] = numbers
    at = table.column_names.index(RAW_COLUMN)
    return table.set_column(at, RAW_COLUMN, pa.array(column, pa.binary())), layouts, rows


def _name(attribute: bytes) -> str:
    node = np.frombuffer(wire.frame(wire.field_bytes(10, attribute)), np.uint8)
    name: str = msgspec.json.decode(core.json_nodes(node, True))["attr"][0]["name"]
    return name
