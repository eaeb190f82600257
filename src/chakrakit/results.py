"""Results: what commands and functions give back, small to look at and easy to take elsewhere.

A result is a `msgspec.Struct` whose fields are what `--json` prints, with `Result` mixed in. Objects that
carry more (a simulation and the run it can make) mix in `Facts`, whose `facts()` returns the struct to show.
"""

from __future__ import annotations

import math
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
_LINE = 100
"""Most characters of a repr on one line; longer ones have one line per field."""
_ROWS = 12
"""Most entries of a list or mapping that are shown one by one; of longer lists the length is."""
_INLINE = 8
"""Most fields of a struct that is shown inside another."""
_DIGITS = 6
"""Significant digits of a fraction: measured times seldom have more."""
_STYLE = "font-family:monospace;font-size:90%;border-collapse:collapse"
"""Of tables in notebooks."""
SHOWN_ROWS = 8
"""Rows of a table in a notebook; the caption says that there are more."""
_COLUMNS = 12
"""Most columns of a result's rows in a notebook."""


class Bars(msgspec.Struct, frozen=True):
    """The content of a bar chart: a few named figures."""

    title: str
    rows: list[tuple[str, float, str]]
    """Name, value, and the value with its unit."""


class Curve(msgspec.Struct, frozen=True):
    """The content of a line chart of one figure over another; the x axis is logarithmic."""

    title: str
    name: str
    x: str
    y: str
    points: list[tuple[float, float]]


class Facts:
    """Ways to show a struct of results and to convert it: repr, HTML, dictionary, Arrow, pandas, chart."""

    __slots__ = ()

    def facts(self) -> msgspec.Struct:
        """The struct that `--json` prints."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries and lists, as `--json` prints it."""
        plain: dict[str, Any] = msgspec.to_builtins(self.facts())
        return plain

    def to_arrow(self) -> pa.Table:
        """The result's rows as an Arrow table: its first list of structs, or itself as one row.

        Fields of structs inside a row become columns such as `breakdown.compute_ns`.
        """
        import pyarrow as pa

        struct = self.facts()
        rows = [_flat(row) for row in _rows(struct)]
        if not rows:
            rows = [{k: v for k, v in _flat(struct).items() if _is_plain(v)}]
        return pa.Table.from_pylist(rows)

    def to_pandas(self) -> Any:
        """The same as a pandas data frame; needs pandas."""
        return self.to_arrow().to_pandas()

    def plot(self) -> Any:
        """A picture of the result: shown by notebooks, saved by its `save(path)`."""
        return sys.modules["chakrakit"].plot(self)  # drawing is a room above this one

    def __repr__(self) -> str:
        return short_repr(self.facts(), type(self).__name__)

    def _repr_html_(self) -> str:
        struct = self.facts()
        rows = _rows(struct)
        fields = {n: v for n, v in _without_empty(_fields(struct)).items() if not _holds(v, rows)}
        cells = ((name, _short(value, quote="", sep=",")) for name, value in fields.items())
        head = table_html((), cells, type(self).__name__)
        return head + (_rows_html(rows) if rows else "")


class Result(Facts):
    """Mixed into a `msgspec.Struct` of results; the struct that is shown is the object itself."""

    __slots__ = ()

    def facts(self) -> msgspec.Struct:
        """The struct itself."""
        assert isinstance(self, msgspec.Struct), "mixed into a struct"
        return self

    def table_rows(self) -> Sequence[msgspec.Struct]:
        """What `to_arrow` makes a table of: the first list of structs."""
        for value in _fields(self.facts()).values():
            if isinstance(value, list) and value and isinstance(value[0], msgspec.Struct):
                return value
        return []

    def picture(self) -> Bars | Curve | None:
        """The content of the chart that `plot` draws; None where a chart adds nothing to the figures."""
        return None


def short_repr(struct: msgspec.Struct, name: str = "") -> str:
    """A repr of one screen: empty fields are left out, long values cut or counted."""
    name = name or type(struct).__name__
    parts = [f"{k}={_short(v)}" for k, v in _without_empty(_fields(struct)).items()]
    text = f"{name}({', '.join(parts)})"
    if len(text) > _LINE:
        text = "\n".join([f"{name}(", *(f"  {part}," for part in parts), ")"])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 rank`, `1,024 ranks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def three_digits(value: float, sign: str = "") -> str:
    """`0.138`, `29.1`, `1,070`: a figure as exact as its interval, never with an exponent for a large one."""
    return f"{value:{sign},.3g}" if abs(value) < 999.5 else f"{value:{sign},.0f}"


def spread_cells(figure: Spread | None, of_any: bool = True) -> list[str]:
    """Mean and percentiles as a row of a table has them; dashes where there was nothing to measure."""
    if figure is None or not of_any:
        return ["–"] * len(Spread.__struct_fields__)
    return [milliseconds_text(value) for value in msgspec.structs.astuple(figure)]


def milliseconds_text(value: float) -> str:
    """Milliseconds to a tenth, and with three digits where that would say little: 1,234.5, 0.0131."""
    if abs(value) >= 0.1 or not value:
        return f"{value:,.1f}"
    return f"{value:.{min(2 - math.floor(math.log10(abs(value))), 12)}f}".rstrip("0")


def utilization_text(mfu: float, hfu: float) -> str:
    """Both utilizations with their definitions, for wherever they are printed."""
    return f"MFU {100 * mfu:.1f} % ({MFU}), HFU {100 * hfu:.1f} % (all FLOPs that run)"


MFU = "FLOPs of the model, without recomputation, of the devices' peak"
"""What a model's utilization is, for tables that show it alone."""


SITE = "their share of servers and building"
"""What `facility_joules` holds beside the energy of devices, in words."""


def time_text(nanos: float) -> str:
    """A time with a unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(nanos) >= size:
            return f"{nanos / size:,.2f} {unit}"
    return f"{nanos:,.0f} ns"


def size_text(count: float) -> str:
    """Bytes with a unit that suits them."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:,.0f} B"


def energy_text(joules: float) -> str:
    """Joules with the prefix that keeps them short: 912 J, 49.55 kJ, 3.1 MJ."""
    return _prefixed(joules, (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3), ("J", 1.0), ("mJ", 1e-3)))


def clocks_text(lowest: float, highest: float | None) -> str:
    """1,410 MHz; 1,005 to 1,980 MHz where phases or devices differ."""
    if highest is None or round(highest) == round(lowest):
        return f"{lowest:,.0f} MHz"
    return f"{lowest:,.0f} to {highest:,.0f} MHz"


def mass_text(kilograms: float) -> str:
    """Kilograms with the unit that keeps them short: 14.7 mg, 3.2 kg, 1,200 t."""
    return _prefixed(kilograms, (("t", 1e3), ("kg", 1.0), ("g", 1e-3), ("mg", 1e-6)))


def flops_text(count: float) -> str:
    """Floating-point operations with the prefix that keeps them short: 13.99 TFLOP."""
    prefixes = (("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6))
    return _prefixed(count, (*prefixes, ("FLOP", 1.0)))


def money_text(dollars: float) -> str:
    """Dollars, to the cent or, below one, to four digits that say something: never with an exponent."""
    if abs(dollars) >= 1 or not dollars:
        return f"${dollars:,.2f}"
    digits = 3 - math.floor(math.log10(abs(dollars)))
    return f"${dollars:.{min(digits, 12)}f}"


def _prefixed(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Four digits in the largest unit that is not larger than the value, else in the smallest."""
    unit, size = next((u for u in units if abs(value) >= u[1]), units[-1])
    scaled = value / size
    return f"{scaled:,.4g} {unit}" if abs(scaled) < 9_999.5 else f"{scaled:,.0f} {unit}"


class Spread(Result, msgspec.Struct, frozen=True):
    """A figure over requests, in milliseconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


_NO_SPREAD = Spread(0.0, 0.0, 0.0, 0.0, 0.0)
"""Of no request at all."""


def spread(milliseconds: F64) -> Spread:
    """Mean and percentiles, as numpy interpolates them."""
    if not len(milliseconds):
        return _NO_SPREAD
    percentiles = np.percentile(milliseconds, (50, 90, 95, 99))
    return Spread(float(milliseconds.mean()), *percentiles.tolist())


def spread_of_any(milliseconds: F64) -> Spread | None:
    """The same; None of nothing, where zeros would read as a figure."""
    return spread(milliseconds) if len(milliseconds) else None


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
        + (f"<tr>{cells}</tr>" if head else "")
        + f"{body}</table>"
    )


def _rows_html(rows: Sequence[msgspec.Struct]) -> str:
    """The first rows of a result, with the columns that fit a cell."""
    flat = [_flat(row) for row in rows[:SHOWN_ROWS]]
    names = [n for n in flat[0] if all(_is_plain(row.get(n)) for row in flat)][:_COLUMNS]
    cells = ([_short(row.get(n, ""), quote="", sep=",") for n in names] for row in flat)
    more = f", the first {SHOWN_ROWS} shown" if len(rows) > SHOWN_ROWS else ""
    return table_html(names, cells, f"{len(rows):,} × {type(rows[0]).__name__}{more}")


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def _without_empty(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that are neither None nor empty; all of them if none is."""
    empty: tuple[object, ...] = (None, "", [], {}, ())
    return {n: v for n, v in fields.items() if v not in empty} or dict(fields)


def _rows(struct: msgspec.Struct) -> Sequence[msgspec.Struct]:
    return struct.table_rows() if isinstance(struct, Result) else ()


def _holds(value: object, rows: Sequence[msgspec.Struct]) -> bool:
    """Whether a field's value is among the rows that are shown below."""
    first = value[0] if isinstance(value, list) and value else value
    return any(first is row for row in rows)


def _flat(struct: msgspec.Struct) -> dict[str, Any]:
    """Fields as plain values; those of structs inside by `outer.inner`."""
    flat_fields: dict[str, Any] = {}
    for name, value in _fields(struct).items():
        if isinstance(value, msgspec.Struct):
            flat_fields |= {f"{name}.{inner}": v for inner, v in _flat(value).items()}
        else:
            flat_fields[name] = msgspec.to_builtins(value)
    return flat_fields


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _short(value: object, quote: str = "'", sep: str = "_") -> str:
    """A value in a few words: long lists and tables by their length."""
    if isinstance(value, msgspec.Struct):
        return _short_struct(value, quote, sep)
    if isinstance(value, str):
        text = value if len(value) <= 60 else value[:59] + "…"
        return repr(text) if quote else text
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value, sep)
    if isinstance(value, Mapping):
        inner = [f"{k!r}: {_short(v, quote, sep)}" for k, v in list(value.items())[:_ROWS]]
        return "{" + ", ".join(inner) + ("" if len(value) <= _ROWS else ", …") + "}"
    if isinstance(value, Sequence):
        return _short_list(value, quote, sep)
    text = "" if value is None and not quote else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _short_struct(struct: msgspec.Struct, quote: str, sep: str) -> str:
    """The first plain values of a struct; `…` where it has more."""
    fields = _without_empty(_fields(struct))
    plain = [(k, v) for k, v in fields.items() if _is_plain(v)][:_INLINE]
    parts = [f"{name}={_short(value, quote, sep)}" for name, value in plain]
    more = ["…"] if len(parts) < len(fields) else []
    return f"{type(struct).__name__}({', '.join([*parts, *more])})"


def _number(value: float, sep: str) -> str:
    """A number as people read it: digits in groups, a fraction to six digits, seldom an exponent."""
    if isinstance(value, int):
        return f"{value:{sep}}" if abs(value) >= 10_000 else str(value)
    if not math.isfinite(value) or value == 0 or not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{_DIGITS}g}"
    places = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:{sep if abs(value) >= 10_000 else ''}.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _short_list(values: Sequence[object], quote: str, sep: str) -> str:
    if values and isinstance(values[0], msgspec.Struct):
        return f"[{len(values):,} × {type(values[0]).__name__}]"
    if len(values) > _ROWS:
        return f"[{len(values):,} values]"
    return "[" + ", ".join(_short(v, quote, sep) for v in values) + "]"
