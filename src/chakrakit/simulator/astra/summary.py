"""A result as a table for people."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table

from chakrakit.simulator.astra.result import Result

_ROWS = 16


def summary(result: Result) -> Group:
    """Cycles and exposed communication by rank, equal neighbours in one row."""
    table = Table(box=None)
    for heading in ("ranks", "cycles (ns)", "exposed"):
        table.add_column(heading, justify="right")
    spans = list(_spans(result))
    for first, last, cycles, exposed in spans[:_ROWS]:
        ranks = str(first) if first == last else f"{first}–{last}"
        table.add_row(ranks, "never" if cycles < 0 else f"{cycles:,}", f"{exposed:,}")
    if len(spans) > _ROWS:
        table.add_row("…", "", "")
    return Group(table, _about(result))


def _spans(result: Result) -> list[tuple[int, int, int, int]]:
    spans: list[tuple[int, int, int, int]] = []
    figures = zip(result.cycles.tolist(), result.exposed.tolist(), strict=True)
    for rank, (cycles, exposed) in enumerate(figures):
        if spans and spans[-1][2:] == (cycles, exposed):
            spans[-1] = (spans[-1][0], rank, cycles, exposed)
        else:
            spans.append((rank, rank, cycles, exposed))
    return spans


def _about(result: Result) -> str:
    if result.folded:
        count = len(result.representative)
        folded = f"{result.ranks} ranks in {count} class{'es' if count > 1 else ''}"
    else:
        folded = f"{result.ranks} ranks, not folded: {result.why_not_folded}"
    return f"{folded}\n{result.stuck}" if result.stuck else folded
