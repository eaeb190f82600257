"""What the study of readiness says: its table, its verdict and its drawing, from the rows alone."""

from __future__ import annotations

from itertools import pairwise

from study import Row, interval, markdown, prediction, span

from chakrakit.views.lines import Line, line_chart

KEYS = ("sweep", "source", "spread", "stages", "batches", "limit", "transfer")


def gains(rows: list[Row], side: str, against: str = "fixed") -> dict[tuple, tuple[float, float]]:
    """For each case, how many times as long `against` takes as `side`: mean and margin over seeds."""
    steps = {(tuple(r[k] for k in KEYS), r["side"], r["seed"]): r["step_ms"] for r in rows}
    ratios: dict[tuple, list[float]] = {}
    for (case, who, seed), step in steps.items():
        if who == against:
            ratios.setdefault(case, []).append(step / steps[case, side, seed])
    return {case: interval(found) for case, found in ratios.items()}


PAIRS = (
    ("fixed", "ready"),
    ("fixed", "window"),
    ("fixed, whole", "ready, whole"),
    ("1f1b", "ready, whole"),
    ("1f1b", "ready"),
)


def table(rows: list[Row]) -> str:
    """A case a line."""
    found = [gains(rows, side, against) for against, side in PAIRS]
    lines = [(*case, *("{:.3f} ± {:.3f}".format(*g[case]) for g in found)) for case in found[0]]
    return markdown((*KEYS, *(f"{a} / {b}" for a, b in PAIRS)), lines)


def verdict(rows: list[Row]) -> list[str]:
    """What became of the predictions, and the figures behind it."""
    lines = _predictions(rows)
    for against, side in PAIRS:
        found = gains(rows, side, against)
        calm = [g for case, (g, _) in found.items() if case[2] == 0]
        noisy = {case: g for case, g in found.items() if case[2] > 0}
        lines.append(f"{against} / {side}: {span(calm, '.3f')} without variation; {_span(noisy)}")
    for against, side in PAIRS[0], PAIRS[2]:
        lines += [f"{against} / {side} {trend}" for trend in _trends(gains(rows, side, against))]
    return lines


def _predictions(rows: list[Row]) -> list[str]:
    found, usual = gains(rows, "ready"), gains(rows, "ready", "1f1b")
    calm = [g for case, (g, _) in found.items() if case[2] == 0]
    by_source: dict[str, list[float]] = {}
    for case, (g, _) in sorted(found.items(), key=lambda item: item[0][2]):
        if case[0] == "spread":
            by_source.setdefault(case[1], []).append(g)
    grows = all(a <= b for g in by_source.values() for a, b in pairwise(g))
    wider = all(g[-1] > by_source["cell"][-1] for s, g in by_source.items() if s != "cell")
    modest = [g for case, (g, _) in found.items() if 0 < case[2] <= 0.4]
    tight = [g for case, (g, _) in found.items() if case[5] < case[3]]
    over = [usual[case][0] / g for case, (g, _) in found.items() if case[2] > 0]
    growth, size = "grows" if grows else "does not always grow", "larger" if wider else "not larger"
    return [
        prediction(
            1,
            all(abs(g - 1) < 1e-3 for g in calm),
            f"without variation fixed / ready is {span(calm, '.3f')}",
        ),
        prediction(
            2,
            grows and wider,
            f"the gain {growth} with the spread, and is {size} for micro-batches as a whole than for tasks "
            "by themselves",
        ),
        prediction(
            3,
            max(modest) < 1.5 and all(g < 1.02 for g in tight),
            f"up to a spread of 0.4 it is {span(modest)}, with fewer in flight than stages {span(tight)}",
        ),
        prediction(4, min(over) > 1, f"against 1F1B it looks {span(over)} times as large"),
    ]


def _span(noisy: dict[tuple, tuple[float, float]]) -> str:
    """The extremes of a gain, and in how many cases it is one."""
    top, low = (how(noisy, key=lambda case: noisy[case][0]) for how in (max, min))
    faster = sum(g - m > 1 for g, m in noisy.values())
    slower = sum(g + m < 1 for g, m in noisy.values())
    where = ", ".join(f"{k} {v}" for k, v in zip(KEYS[1:], top[1:], strict=True))
    return (
        f"with it, {noisy[low][0]:.2f} to {noisy[top][0]:.2f} ± {noisy[top][1]:.2f} (the most at {where}). "
        f"Of {len(noisy)} cases, a gain in {faster}, a loss in {slower}, not told apart in "
        f"{len(noisy) - faster - slower}."
    )


def _trends(found: dict[tuple, tuple[float, float]]) -> list[str]:
    """How the gain goes along each sweep."""
    lines = []
    for sweep, source in dict.fromkeys(case[:2] for case in found):
        along = [
            (case[KEYS.index(sweep)], g)
            for case, (g, _) in found.items()
            if case[:2] == (sweep, source)
        ]
        told = ", ".join(f"{value:g}: {gain:.2f}" for value, gain in along)
        lines.append(f"by {sweep} ({source}): {told}.")
    return lines


def draw(rows: list[Row]) -> str:
    """The gain over the spread by what varies: over the best fixed order, and over 1F1B."""
    lines = []
    for against, name in (("fixed", "best fixed"), ("1f1b", "1F1B")):
        found = {c: g for c, g in gains(rows, "ready", against).items() if c[0] == "spread"}
        for source in dict.fromkeys(case[1] for case in found):
            mine = sorted((case[2], g) for case, g in found.items() if case[1] == source)
            points = [(spread, g) for spread, (g, _) in mine]
            margins = [m for _, (_, m) in mine]
            lines.append(Line(f"{name}, {source}", points, margins, dashed=against == "1f1b"))
    title = "How many times as long a fixed order takes as readiness"
    return line_chart(title, lines, "spread of durations", "× ready", level=1.0)
