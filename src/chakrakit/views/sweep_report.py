"""A page about a sweep: the best points, curves, maps, Pareto fronts and failures; for serving, latencies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.exploration.sweep import PointRow, findings
from chakrakit.insight.rank import Table, ms
from chakrakit.results import size_text, time_text
from chakrakit.trace.files import replacing
from chakrakit.views import charts, plots
from chakrakit.views.charts import Markup, tag
from chakrakit.views.lines import Line, line_chart
from chakrakit.views.page import page, table_markup

_LATENCY_TITLES = {
    "ttft_p99_ms": "Time to the first token",
    "tpot_p99_ms": "Time per output token",
    "e2e_p99_ms": "Time from arrival to end",
}
_SERVED_COLUMNS = {
    "output tokens/s": "output_tokens_per_s",
    "per device": "output_tokens_per_s_per_device",
    "goodput /s": "goodput",
    "within level": "attained",
    "TTFT p99 ms": "ttft_p99_ms",
    "TPOT p99 ms": "tpot_p99_ms",
    "end to end p99 ms": "e2e_p99_ms",
    "batch": "mean_batch",
    "preemptions": "preemptions",
}


def serving_sections(table: pa.Table) -> dict[str, list[Markup]]:
    """The sections of a sweep that serves requests: title → content."""
    return {
        "Best by throughput per device": list(_best_served(table)),
        "Throughput against latency": list(_latency_fronts(table)),
    }


def _best_served(table: pa.Table) -> Iterator[Markup]:
    names = findings.parameters(table)
    rows = findings.served_rows(table)[:20]
    cells = [
        (*(str(r[n]) for n in names), *(_figure(r[c]) for c in _SERVED_COLUMNS.values()))
        for r in rows
    ]
    if rows:
        yield table_markup(Table.of("", (*names, *_SERVED_COLUMNS), cells), titled=False)


def _figure(value: float | None) -> str:
    """A figure as people read it; a dash where there was nothing to measure."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _latency_fronts(table: pa.Table) -> Iterator[Markup]:
    names = findings.varied(table)
    for latency_front in findings.latency_fronts(table):
        if not latency_front.best:
            continue

        def place(row: PointRow, latency: str = latency_front.latency) -> tuple[float, float, str]:
            parameters = _parameters_text(row, names)
            return row[findings.THROUGHPUT], row[latency], f"{parameters}: {row[latency]:,.1f} ms"

        points = {
            name: [place(r) for r in rows] for name, rows in latency_front.configurations.items()
        }
        chart = plots.front(points, [place(r) for r in latency_front.best], _tokens, _milliseconds)
        caption = (
            "99th percentile over output tokens per second and device. Points of one colour are one "
            "configuration under growing load; those on the line are beaten by none in both."
        )
        yield charts.figure(
            f"{_LATENCY_TITLES[latency_front.latency]} against throughput", caption, chart
        )


def _tokens(value: float) -> str:
    return f"{_figure(value)} tokens/s"


def _milliseconds(value: float) -> str:
    return f"{_figure(value)} ms"


_FIGURE_TITLES = {
    "step_ns": "Step time",
    "tokens_per_s": "Tokens a second",
    "memory_bytes": "Memory of a rank",
    "energy_joules": "Energy of a step",
    "price": "Price of a step",
}


def write_sweep_report(name: str, table: str | Path, path: Path) -> Path:
    """Writes the page about a sweep's Parquet table to `path` and returns that."""
    with replacing(path) as temporary:
        temporary.write_text(sweep_html(name, pq.read_table(table)), "utf-8")
    return path


def sweep_html(name: str, table: pa.Table) -> str:
    """The page about a sweep as HTML."""
    rows = table.to_pylist()
    finished = [r for r in rows if r["status"] == "done"]
    facts = {
        "": f"{len(rows):,} points",
        "done": f"{len(finished):,}",
        "failed": f"{len(rows) - len(finished):,}",
    }
    footer = "Made by chakrakit (chakra sweep)."
    if findings.is_serving(table):
        sections = serving_sections(table)
    else:
        facts["over memory"] = f"{sum(not r['fits'] for r in finished):,}"
        footer += " Curves, maps and fronts show only points that fit their machine's memory."
        sections = _step_sections(table)
    sections["Failed"] = list(_failed(table))
    body = [tag("section", tag("h2", head), *parts) for head, parts in sections.items() if parts]
    return page(name, facts, *body, footer=footer)


def _step_sections(table: pa.Table) -> dict[str, list[Markup]]:
    return {
        "Fastest that fit": list(_fastest(table)),
        "Curves": list(_curves(table)),
        "Two at a time": list(_maps(table)),
        "What speed costs": list(_cost_fronts(table)),
    }


def _parameters_text(row: PointRow, names: list[str]) -> str:
    return ", ".join(f"{n} {row[n]}" for n in names)


def _fastest(table: pa.Table) -> Iterator[Markup]:
    names = findings.parameters(table)
    rows = findings.usable(table)[:20]
    head = (
        *names,
        "step ms",
        "90 of 100 measured",
        "exposed communication ms",
        "idle ms",
        "MFU %",
        "memory GiB",
    )
    cells = [
        (
            *(_cell(r[n]) for n in names),
            ms(r["step_ns"]),
            findings.bounds_text(r),
            ms(r["exposed_comm_ns"]),
            ms(r["idle_ns"]),
            round(100 * r["mfu"], 1) if r["mfu"] is not None else "",
            round(r["memory_bytes"] / 2**30, 1),
        )
        for r in rows
    ]
    if rows:
        yield table_markup(Table.of("", head, cells), titled=False)


def _cell(value: Any) -> str | int | float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _curves(table: pa.Table) -> Iterator[Markup]:
    for chart_curves in findings.all_curves(table):
        unit, scale = (
            ("ms", 1e-6) if chart_curves.figure == "step_ns" else ("tokens per second", 1.0)
        )
        lines = [
            Line(c.machine, _scaled(c.points, scale), [(a * scale, b * scale) for a, b in c.bounds])
            for c in chart_curves.curves
        ]
        if chart_curves.ideal:
            lines.append(Line("in proportion", _scaled(chart_curves.ideal, scale), dashed=True))
        values = [x for line in lines for x, _ in line.points]
        title = f"{_FIGURE_TITLES[chart_curves.figure]} over {chart_curves.over}"
        chart = line_chart("", lines, chart_curves.over, unit, log_x=min(values) > 0)
        bars = "; bars hold 90 of 100 measured ones" if any(line.bounds for line in lines) else ""
        caption = f"The best at each value of {chart_curves.over}{bars}."
        yield charts.figure(title, caption, chart)


def _scaled(points: list[tuple[float, float]], scale: float) -> list[tuple[float, float]]:
    return [(x, y * scale) for x, y in points]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def _maps(table: pa.Table) -> Iterator[Markup]:
    for step_map in findings.maps(table):
        if not step_map.best_ns:
            continue
        chart = plots.grid(
            [str(v) for v in step_map.row_values],
            [str(v) for v in step_map.column_values],
            step_map.best_ns,
            time_text,
        )
        caption = "The shortest step over everything else; darker is faster, – where nothing fits."
        yield charts.figure(f"{step_map.rows} by {step_map.columns}", caption, chart)


def _cost_fronts(table: pa.Table) -> Iterator[Markup]:
    names = findings.varied(table)
    for cost_front in findings.fronts(table):
        text = size_text if cost_front.cost == "memory_bytes" else _count

        def place(row: PointRow, cost: str = cost_front.cost) -> tuple[float, float, str]:
            return (
                row["step_ns"],
                row[cost],
                f"{_parameters_text(row, names)}: {time_text(row['step_ns'])}",
            )

        points: dict[str, list[tuple[float, float, str]]] = {}
        for row in cost_front.points:
            points.setdefault(row["machine"], []).append(place(row))
        chart = plots.front(points, [place(r) for r in cost_front.best], time_text, text)
        caption = "Each point is a run; those on the line are beaten by none in both."
        yield charts.figure(f"{_FIGURE_TITLES[cost_front.cost]} against step time", caption, chart)


def _failed(table: pa.Table) -> Iterator[Markup]:
    names = findings.parameters(table)
    rows = [r for r in table.to_pylist() if r["status"] == "failed"]
    if rows:
        cells = [(*(_cell(r[n]) for n in names), r["error"] or "") for r in rows]
        yield table_markup(Table.of("", (*names, "error"), cells).first(200), titled=False)
