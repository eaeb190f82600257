"""A result in a few lines for people; whoever prints it decides how."""

from __future__ import annotations

from chakrakit.simulator.astra.result import AstraSimulation

_ROWS = 16


def rows(result: AstraSimulation) -> list[tuple[str, str, str]]:
    """Ranks, cycles and exposed communication; equal neighbours are one row, long lists are cut."""
    shown = [
        (
            str(first) if first == last else f"{first}–{last}",
            "never" if cycles < 0 else f"{cycles:,}",
            "never" if cycles < 0 else f"{exposed:,}",
        )
        for first, last, cycles, exposed in _spans(result)
    ]
    return shown if len(shown) <= _ROWS else [*shown[:_ROWS], ("…", "…", "…")]


def about(result: AstraSimulation) -> str:
    """How many ranks were simulated, and why any never finished."""
    if result.folded:
        count = len(result.representative)
        folded = f"{result.ranks} ranks in {count} class{'es' if count > 1 else ''}"
    else:
        folded = f"{result.ranks} ranks, not folded: {result.why_not_folded}"
    return f"{folded}\n{result.stuck}" if result.stuck else folded


def _spans(result: AstraSimulation) -> list[tuple[int, int, int, int]]:
    spans: list[tuple[int, int, int, int]] = []
    figures = zip(result.cycles.tolist(), result.exposed.tolist(), strict=True)
    for rank, (cycles, exposed) in enumerate(figures):
        if spans and spans[-1][2:] == (cycles, exposed):
            spans[-1] = (spans[-1][0], rank, cycles, exposed)
        else:
            spans.append((rank, rank, cycles, exposed))
    return spans
