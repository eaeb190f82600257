"""What a sweep's table shows: best points, curves, maps of two parameters, the Pareto front."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from chakrakit.results import Result, three_digits

PointRow = dict[str, Any]
"""A row of the table: parameters and figures by column."""

_MAPS = 6  # maps of a page: pairs of four parameters; more parameters would fill it with maps


class SweepCurve(Result, msgspec.Struct, frozen=True):
    """The best figure at each value of a parameter, for one machine."""

    machine: str
    points: list[tuple[float, float]]
    bounds: list[tuple[float, float]] = []
    """Where 90 of 100 measured figures should lie at each of them; empty where one has no interval."""


class Curves(Result, msgspec.Struct, frozen=True):
    """Curves of one figure over one parameter; `ideal` continues the first point in proportion."""

    over: str
    figure: str
    curves: list[SweepCurve]
    ideal: list[tuple[float, float]] = []


class Map(Result, msgspec.Struct, frozen=True):
    """The best step time for every pair of values of two parameters; None where nothing fits."""

    rows: str
    columns: str
    row_values: list[Any]
    column_values: list[Any]
    best_ns: dict[tuple[int, int], float]


class Front(Result, msgspec.Struct, frozen=True):
    """All points by step time and another cost; those that no other beats in both come in `best`."""

    cost: str
    points: list[PointRow]
    best: list[PointRow]


def usable(table: pa.Table) -> list[PointRow]:
    """The rows that are done and fit their machine's memory, fastest first."""
    rows = [r for r in table.to_pylist() if r["status"] == "done" and r["fits"]]
    return sorted(rows, key=lambda r: r["step_ns"])


def parameters(table: pa.Table) -> list[str]:
    """The columns that say which point it is."""
    names: list[str] = table.column_names
    return names[: names.index("status")]


def varied(table: pa.Table) -> list[str]:
    """Of the parameters, those with more than one value."""
    return [n for n in parameters(table) if len(table.column(n).unique()) > 1]


def all_curves(table: pa.Table) -> list[Curves]:
    """Throughput over ranks where their number varies; step time over every other number."""
    rows = usable(table)
    curves = []
    if len({r["ranks"] for r in rows}) > 1 and all(r["tokens_per_s"] for r in rows):
        curves.append(_scaling(rows))
    for name in varied(table):
        if all(_number(r[name]) for r in rows) and len({r[name] for r in rows}) > 1:
            curves.append(Curves(name, "step_ns", _curves(rows, name, "step_ns", min)))
    return curves


def _scaling(rows: Sequence[PointRow]) -> Curves:
    curves = _curves(rows, "ranks", "tokens_per_s", max)
    first = max((c.points[0] for c in curves), key=lambda p: p[1] / p[0])
    last = max(p[0] for c in curves for p in c.points)
    ideal = [first, (last, first[1] * last / first[0])]
    return Curves("ranks", "tokens_per_s", curves, ideal)


def _curves(rows: Sequence[PointRow], over: str, figure: str, best: Any) -> list[SweepCurve]:
    rows_of_machine: dict[str, dict[float, PointRow]] = {}
    for row in rows:
        at = rows_of_machine.setdefault(row["machine"], {})
        x = float(row[over])
        at[x] = best(at.get(x, row), row, key=lambda r: r[figure])
    return [_curve(name, sorted(at.items()), figure) for name, at in rows_of_machine.items()]


def _curve(machine: str, rows: Sequence[tuple[float, PointRow]], figure: str) -> SweepCurve:
    bounds = [_bounds(row, figure) for _, row in rows]
    known = [b for b in bounds if b is not None]
    points = [(x, row[figure]) for x, row in rows]
    return SweepCurve(machine, points, known if len(known) == len(bounds) else [])


def _bounds(row: PointRow, figure: str) -> tuple[float, float] | None:
    """The interval of a figure that is a step's time, or what is done in one."""
    low, high = row.get("step_low_ns"), row.get("step_high_ns")
    if not low or not high:
        return None
    if figure == "step_ns":
        return low, high
    return row[figure] * row["step_ns"] / high, row[figure] * row["step_ns"] / low


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def bounds_text(row: PointRow) -> str:
    """The interval of a point's step in ms; empty where its times were measured."""
    bounds = _bounds(row, "step_ns")
    return "–".join(three_digits(bound / 1e6) for bound in bounds) if bounds else ""


def maps(table: pa.Table) -> list[Map]:
    """A map for each pair of parameters that vary, up to six."""
    pairs = itertools.combinations(varied(table), 2)
    return [_map(table, a, b) for a, b in itertools.islice(pairs, _MAPS)]


def _map(table: pa.Table, rows: str, columns: str) -> Map:
    values = [table.column(n).unique().to_pylist() for n in (rows, columns)]
    best: dict[tuple[int, int], float] = {}
    for row in usable(table):
        at = values[0].index(row[rows]), values[1].index(row[columns])
        best[at] = min(best.get(at, row["step_ns"]), row["step_ns"])
    return Map(rows, columns, values[0], values[1], best)


def fronts(table: pa.Table) -> list[Front]:
    """Step time against memory, and against energy and price where the machines have them."""
    rows = usable(table)
    costs = ["memory_bytes", "energy_joules", "price"]
    available = [c for c in costs if rows and all(r[c] is not None for r in rows)]
    return [Front(cost, rows, front(rows, "step_ns", cost)) for cost in available]


def front(rows: Sequence[PointRow], first: str, second: str) -> list[PointRow]:
    """The rows that no other row beats in one figure without losing in the other, by the first."""
    unbeaten: list[PointRow] = []
    for row in sorted(rows, key=lambda r: (r[first], r[second])):
        if not unbeaten or row[second] < unbeaten[-1][second]:
            unbeaten.append(row)
    return unbeaten


# --- studies that serve: best points, and throughput against latency ----------------------------


LATENCIES = ("ttft_p99_ms", "tpot_p99_ms", "e2e_p99_ms")
THROUGHPUT = "output_tokens_per_s_per_device"
LOADS = ("rate_scale", "requests.rate", "requests.concurrency", "prompt_scale", "output_scale")
"""Axes that change what is asked of engines; all others say which engines they are."""


class LatencyFront(Result, msgspec.Struct, frozen=True):
    """Every configuration's points by throughput and one latency, and those that none beats in both."""

    latency: str
    configurations: dict[str, list[PointRow]]
    best: list[PointRow]


def is_serving(table: pa.Table) -> bool:
    """Whether the table is of a study that serves."""
    return THROUGHPUT in table.column_names


def served_rows(table: pa.Table) -> list[PointRow]:
    """The points that are done: those that meet their level first, by throughput per device."""
    rows = [r for r in table.to_pylist() if r["status"] == "done"]
    return sorted(rows, key=lambda r: (r["attained"] < 0.99, -r[THROUGHPUT]))


def latency_fronts(table: pa.Table) -> list[LatencyFront]:
    """Throughput per device against each latency; configurations differ in what is not the load."""
    rows, names = served_rows(table), varied(table)
    fixed = [n for n in names if n not in LOADS]
    fronts = []
    for latency in LATENCIES:
        by_name: dict[str, list[PointRow]] = {}
        measured = [r for r in rows if r[latency] is not None]
        for row in measured:
            by_name.setdefault(_configuration_name(row, fixed), []).append(row)
        for configuration in by_name.values():
            configuration.sort(key=lambda r: float(r[THROUGHPUT]))
        fronts.append(LatencyFront(latency, by_name, _best(measured, latency)))
    return fronts


def _best(rows: list[PointRow], latency: str) -> list[PointRow]:
    """The rows that no other beats in throughput without losing in latency."""
    turned = [{**r, "_slowness": -r[THROUGHPUT]} for r in rows]
    return [
        {k: v for k, v in r.items() if k != "_slowness"}
        for r in front(turned, "_slowness", latency)
    ]


def _configuration_name(row: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{n} {row[n]}" for n in names) or "all"
