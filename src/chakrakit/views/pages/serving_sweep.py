"""A study that serves on one page: throughput against latency, and the best points."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from chakrakit.insight.rank import Table
from chakrakit.studies.sweep import PointRow, findings, serving_findings
from chakrakit.views.charts import Markup, charts, plots
from chakrakit.views.pages.page import table_markup

_TITLES = {
    "ttft_p99_ms": "Time to the first token",
    "tpot_p99_ms": "Time per output token",
    "e2e_p99_ms": "Time from arrival to end",
}
_SHOWN = {
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
    """Titles and contents."""
    return {
        "Best by throughput per device": list(_best(table)),
        "Throughput against latency": list(_fronts(table)),
    }


def _best(table: pa.Table) -> Iterator[Markup]:
    names = findings.parameters(table)
    rows = serving_findings.served_rows(table)[:20]
    cells = [(*(str(r[n]) for n in names), *(_figure(r[c]) for c in _SHOWN.values())) for r in rows]
    if rows:
        yield table_markup(Table.of("", (*names, *_SHOWN), cells), titled=False)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _fronts(table: pa.Table) -> Iterator[Markup]:
    names = findings.varied(table)
    for found in serving_findings.latency_fronts(table):
        if not found.best:
            continue

        def place(row: PointRow, latency: str = found.latency) -> tuple[float, float, str]:
            told = ", ".join(f"{n} {row[n]}" for n in names)
            return row[serving_findings.THROUGHPUT], row[latency], f"{told}: {row[latency]:,.1f} ms"

        points = {name: [place(r) for r in rows] for name, rows in found.configurations.items()}
        chart = plots.front(points, [place(r) for r in found.best], _tokens, _milliseconds)
        caption = (
            "99th percentile over output tokens per second and device. Points of one colour are one "
            "configuration under growing load; those on the line are beaten by none in both."
        )
        yield charts.figure(f"{_TITLES[found.latency]} against throughput", caption, chart)


def _tokens(value: float) -> str:
    return f"{_figure(value)} tokens/s"


def _milliseconds(value: float) -> str:
    return f"{_figure(value)} ms"
