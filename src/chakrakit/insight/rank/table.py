"""Table: how a result is shown to people; a title, a head and rows of plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

Cell = str | int | float


class Table(msgspec.Struct, frozen=True):
    """Rows under a head. Numbers are already in the unit that the head names."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    @classmethod
    def of(cls, title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
        """A table from anything that can be walked."""
        return cls(title, tuple(head), [tuple(row) for row in rows])

    def first(self, count: int) -> Table:
        """The first rows; the title says how many there were."""
        if len(self.rows) <= count:
            return self
        title = f"{self.title} (first {count} of {len(self.rows):,})"
        return Table(title, self.head, self.rows[:count])


_NOISE = re.compile(r"^void |\(anonymous namespace\)::|at::native::")
_PARAMETERS = re.compile(r"(?<=[>\w])\((?:[^()]|\([^()]*\))*\)$")


def short(name: str, most: int = 60) -> str:
    """A kernel's name without return type, common namespaces and parameters, cut to fit."""
    text = _PARAMETERS.sub("", _NOISE.sub("", name)) if len(name) < 4000 else name
    text = text or name
    return text if len(text) <= most else text[: most - 1] + "…"


def ms(nanos: float) -> float:
    """Milliseconds to the microsecond."""
    return round(nanos / 1e6, 3)


def us(nanos: float) -> float:
    """Microseconds to the nanosecond."""
    return round(nanos / 1e3, 3)


def percent(part: float, whole: float) -> float:
    """A share in percent to one digit; 0 of nothing."""
    return round(100 * part / whole, 1) if whole else 0.0
