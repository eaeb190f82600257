"""How busy each link of the machine was, over the whole run or a stretch of it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from chakrakit.insight.rank import Table
from chakrakit.results import Result, size_text
from chakrakit.trace.sets import Run


class LinkUse(Result, msgspec.Struct, kw_only=True, frozen=True):
    """One link: what went over it in a stretch of time."""

    link: str
    src: str
    dst: str
    rank: int
    """The rank at one of its ends; -1 where both are switches, or nobody says."""
    bytes: float
    bandwidth: float
    """Bytes per second."""
    utilization: float
    """The share of the time that its bytes take at full rate."""


class LinksUse(Result, msgspec.Struct, kw_only=True, frozen=True):
    """All links that carried data, the busiest first."""

    links: list[LinkUse]
    whole: bool
    """Whether these are sums over the whole run, because the run does not say when they were busy."""

    def table(self, most: int) -> Table:
        """The busiest links; those that are equally busy share a row."""
        alike: dict[tuple[float, str, float], list[LinkUse]] = {}
        for u in self.links:
            facts = round(100 * u.utilization, 1), size_text(u.bytes), round(u.bandwidth / 1e9, 2)
            alike.setdefault(facts, []).append(u)
        rows = [(_named(uses), *facts) for facts, uses in alike.items()]
        head = ("link", "% of its rate", "carried", "GB/s at the most")
        return Table.of("The busiest links", head, rows[:most])


def _named(uses: list[LinkUse]) -> str:
    """The first of some links, and how many more there are."""
    more = f" and {len(uses) - 1:,} more" if len(uses) > 1 else ""
    return f"{uses[0].src} → {uses[0].dst}{more}"


def links_use(run: Run, begin_ns: float, end_ns: float) -> LinksUse | None:
    """The links between two times of the run; None for a run that says nothing of links."""
    table = run.counters.get("links")
    if table is None or not table.num_rows:
        return None
    carried = _carried(run, begin_ns, end_ns)
    seconds = max(end_ns - begin_ns, 1.0) / 1e9
    uses = sorted(_uses(table.to_pylist(), carried, seconds), key=lambda u: -u.utilization)
    return LinksUse(links=uses, whole=carried is None)


def _uses(
    rows: list[dict[str, object]], carried: dict[str, tuple[int, float]] | None, seconds: float
) -> Iterator[LinkUse]:
    for row in rows:
        rank, size = (-1, float(str(row["bytes"])))
        share = float(str(row["utilization"]))
        rate = float(str(row["bandwidth"]))
        if carried is not None:
            rank, size = carried.get(str(row["link"]), (-1, 0.0))
            share = size / (rate * seconds) if rate else 0.0
        yield LinkUse(
            link=str(row["link"]),
            src=str(row["src"]),
            dst=str(row["dst"]),
            rank=rank,
            bytes=size,
            bandwidth=rate,
            utilization=share,
        )


def _carried(run: Run, begin_ns: float, end_ns: float) -> dict[str, tuple[int, float]] | None:
    """For each link its rank and the bytes between two times; None where no rates were kept."""
    table = run.counters.get("link_rate")
    if table is None or not table.num_rows:
        return None
    link = table["link"].combine_chunks().dictionary_encode()
    number = link.indices.to_numpy()
    time, rate, rank = (table[n].to_numpy() for n in ("time_ns", "bytes_per_s", "rank"))
    order = np.lexsort((time, number))
    number, time, rate, rank = number[order], time[order], rate[order], rank[order]
    until = np.r_[time[1:], 0].astype(np.float64)
    last = np.r_[number[1:] != number[:-1], True]
    until[last] = np.inf
    inside = np.minimum(until, end_ns) - np.maximum(time, begin_ns)
    size = np.bincount(number, rate * np.maximum(inside, 0) / 1e9)
    at = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
    names = link.dictionary.to_pylist()
    return {
        names[n]: (int(r), float(size[n]))
        for n, r in zip(number[at].tolist(), rank[at].tolist(), strict=True)
    }
