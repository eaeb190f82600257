"""Links that carry less than they should while traffic queues for them.

A simulated run counts, for every link, the lowest throughput it had while it was what held its traffic
back, and since when. A link that is merely shared is full at its own bandwidth; a slow one is full below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from chakrakit.insight.diagnosis.culprit import Culprit
from chakrakit.insight.diagnosis.pace import RankPace

LEAST_FACTOR = 1.05


def slow_links(counters: Mapping[str, pa.Table], paces: Sequence[RankPace]) -> list[Culprit]:
    """Slow links, the slowest first; both directions of a cable are one."""
    table = counters.get("links")
    if table is None:
        return []
    found: dict[tuple[str, ...], tuple[float, float]] = {}
    columns = (
        table[n].to_pylist() for n in ("src", "dst", "bandwidth", "full_rate", "full_since_ns")
    )
    for src, dst, bandwidth, rate, since in zip(*columns, strict=True):
        if rate < 0 or rate * LEAST_FACTOR >= bandwidth:  # -1: it was never full
            continue
        ends = tuple(sorted((src, dst), key=lambda name: (not name.startswith("device"), name)))
        factor, first = found.get(ends, (1.0, since))
        worst = bandwidth / rate if rate else float("inf")
        found[ends] = (max(factor, worst), min(first, since))
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    return [_culprit(ends, *seen, paces) for ends, seen in ordered]


def _culprit(
    ends: tuple[str, ...], factor: float, since: float, paces: Sequence[RankPace]
) -> Culprit:
    link = "-".join(ends)
    return Culprit(
        kind="slow-link",
        link=link,
        since_step=_step_at(paces, int(since)),
        factor=factor,
        detail=f"the link {link} is full at 1/{factor:.2f} of its bandwidth",
    )


def _step_at(paces: Sequence[RankPace], time_ns: int) -> int | None:
    """The step during which something happened, by the first rank that has steps."""
    pace = next((p for p in paces if len(p.step)), None)
    if pace is None:
        return None
    place = int(np.searchsorted(pace.start_ns, time_ns, "right")) - 1
    return int(pace.step[max(place, 0)])
