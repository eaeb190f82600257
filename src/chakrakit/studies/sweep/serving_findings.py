"""What the table of a study that serves shows: best points, and throughput against latency."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from chakrakit.results import Result
from chakrakit.studies.sweep.findings import PointRow, front, varied

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
    found = []
    for latency in LATENCIES:
        by_name: dict[str, list[PointRow]] = {}
        for row in rows:
            by_name.setdefault(_told(row, fixed), []).append(row)
        for some in by_name.values():
            some.sort(key=lambda r: float(r[THROUGHPUT]))
        found.append(LatencyFront(latency, by_name, _best(rows, latency)))
    return found


def _best(rows: list[PointRow], latency: str) -> list[PointRow]:
    """The rows that no other beats in throughput without losing in latency."""
    turned = [{**r, "_slowness": -r[THROUGHPUT]} for r in rows]
    return [
        {k: v for k, v in r.items() if k != "_slowness"}
        for r in front(turned, "_slowness", latency)
    ]


def _told(row: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{n} {row[n]}" for n in names) or "all"
