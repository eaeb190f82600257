"""Results: what commands and functions give back, small to look at and easy to take elsewhere.

A result is a `msgspec.Struct` whose fields are what `--json` prints, with `Result` mixed in. Objects that
carry more (a simulation and the run it can make) mix in `Facts` and say which struct speaks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from chakrakit.arrays import F64

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST = 1800
"""Most characters of a repr: one screen."""
_ROWS = 12
_STYLE = "font-family:monospace;font-size:90%;border-collapse:collapse"
"""Of tables in notebooks."""
SHOWN_ROWS = 8
"""Rows of a table in a notebook; the caption says that there are more."""


class Facts:
    """Ways to look at a struct of results and to take it elsewhere."""

    __slots__ = ()

    def facts(self) -> msgspec.Struct:
        """The struct that `--json` prints."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries and lists, as `--json` prints it."""
        plain: dict[str, Any] = msgspec.to_builtins(self.facts())
        return plain

    def to_arrow(self) -> pa.Table:
        """The result's rows (its first list of structs) as an Arrow table; one row where it has none."""
        import pyarrow as pa

        struct = self.facts()
        rows = _main_rows(struct)
        if rows is None:
            rows = [{k: v for k, v in _fields(struct).items() if _is_plain(v)}]
        return pa.Table.from_pylist(rows)

    def to_pandas(self) -> Any:
        """The same as a pandas data frame; needs pandas."""
        return self.to_arrow().to_pandas()

    def plot(self) -> Any:
        """A picture of the result: shown by notebooks, saved by its `save(path)`."""
        return sys.modules["chakrakit"].plot(self)  # drawing is a room above this one

    def __repr__(self) -> str:
        struct = self.facts()
        parts = [f"{k}={_short(v)}" for k, v in _fields(struct).items()]
        text = f"{type(self).__name__}({', '.join(parts)})"
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def _repr_html_(self) -> str:
        struct = self.facts()
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(_short(value))}</td></tr>"
            for name, value in _fields(struct).items()
        )
        return f"<table style='{_STYLE}'><caption>{type(self).__name__}</caption>{rows}</table>"


class Result(Facts):
    """Mixed into a `msgspec.Struct` of results, which then speaks for itself."""

    __slots__ = ()

    def facts(self) -> msgspec.Struct:
        """The struct itself."""
        assert isinstance(self, msgspec.Struct), "mixed into a struct"
        return self


class Spread(Result, msgspec.Struct, frozen=True):
    """A figure over requests, in milliseconds."""

    mean: float
    p50: float
    p90: float
    p99: float


def spread(milliseconds: F64) -> Spread:
    """Mean and percentiles, as numpy interpolates them."""
    if not len(milliseconds):
        return Spread(0.0, 0.0, 0.0, 0.0)
    p50, p90, p99 = (float(p) for p in np.percentile(milliseconds, (50, 90, 99)))
    return Spread(float(milliseconds.mean()), p50, p90, p99)


def table_html(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """A small table for notebooks, with every name escaped."""
    cells = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{escape(str(c))}</td>" for c in row)
        + "</tr>"
        for row in rows
    )
    return (
        f"<table style='{_STYLE}'><caption style='text-align:left'><b>{escape(caption)}</b></caption>"
        f"<tr>{cells}</tr>{body}</table>"
    )


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def _main_rows(struct: msgspec.Struct) -> list[dict[str, Any]] | None:
    for value in _fields(struct).values():
        if isinstance(value, list) and value and isinstance(value[0], msgspec.Struct):
            rows: list[dict[str, Any]] = msgspec.to_builtins(value)
            return rows
    return None


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _short(value: object) -> str:
    """A value in a few words: long lists and tables by their length."""
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}(…)"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:59] + "…")
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        inner = [f"{k!r}: {_short(v)}" for k, v in list(value.items())[:_ROWS]]
        return "{" + ", ".join(inner) + ("" if len(value) <= _ROWS else ", …") + "}"
    if isinstance(value, Sequence):
        return _short_list(value)
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _short_list(values: Sequence[object]) -> str:
    if values and isinstance(values[0], msgspec.Struct):
        return f"[{len(values):,} × {type(values[0]).__name__}]"
    if len(values) > _ROWS:
        return f"[{len(values):,} values]"
    return "[" + ", ".join(map(_short, values)) + "]"
