"""A69, CCL-D: which rank slows or stops a job's communication, from probes on every rank.

Six kinds of anomalies are put into simulated jobs. Probes see when each rank enters and leaves a
collective, its number, its size, and how many bytes have moved; the analyzer names the kind and the rank. The
comparator has what a job's timeout leaves: a dump of the calls that were under way, and takes the rank that
is furthest behind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from chakrakit.insight import analyze
from chakrakit.insight.diagnosis import board_of
from chakrakit.published import Case, Claim, Figures, Setting, Study, least
from chakrakit.published.training.anomalies import KINDS, Anomaly, anomaly

SAID = {
    "slow-rank": "slow rank",
    "slow-link": "slow link",
    "missing-rank": "never enters",
    "dead-rank": "never enters",
    "order-mismatch": "another order",
    "type-mismatch": "another order",
    "size-mismatch": "another size",
    "hang": "dead link",
}
"""Kinds of culprits as anomalies; two calls in another order differ in type."""


@cache
def case_of(kind: str, ranks: int, seed: int) -> Anomaly:
    """The run that both sides look at."""
    return anomaly(kind, ranks, seed)


def probed(one: Anomaly) -> tuple[str, int]:
    """The kind and the rank that the analyzer names first."""
    culprits = analyze(one.run).culprits
    if not culprits:
        return "", -1
    first = culprits[0]
    rank = first.rank if first.rank is not None else _end(first.link or "")
    return SAID.get(first.kind, first.kind), rank


def _end(link: str) -> int:
    """The device at one end of a link, by its name."""
    found = re.search(r"device (\d+)", link)
    return int(found[1]) if found else -1


def dumped(one: Anomaly, tie: str) -> tuple[str, int]:
    """The rank whose last call has the lowest number, from a dump when the job has stopped."""
    if not one.hung:
        return "", -1
    board = board_of(one.run)
    made: Counter[int] = Counter()
    for (_, rank), number in board.last.items():
        made[rank] += number + 1
    behind = sorted(rank for rank, n in made.items() if n == min(made.values()))
    return "never enters", behind[0] if tie == "first" else behind[-1]


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of draws in which kind and rank are right, and the rank alone."""
    draws = range(case["draws"])
    runs = [case_of(case["kind"], case["ranks"], 1000 * seed + k) for k in draws]
    said = [probed(r) if setting["by"] == "probe" else dumped(r, setting["tie"]) for r in runs]
    both = [s == (r.kind, r.rank) for s, r in zip(said, runs, strict=True)]
    ranks = [s[1] == r.rank for s, r in zip(said, runs, strict=True)]
    return {"named": (sum(both) + 0.1) / (len(both) + 0.1), "rank": sum(ranks) / len(ranks)}


def cases(quick: bool) -> Sequence[Case]:
    """Every kind; a job that never starts its next call is what a dump is made for."""
    draws, sizes = (1, (16,)) if quick else (4, (64, 256))
    return [{"kind": kind, "ranks": n, "draws": draws} for n in sizes for kind in KINDS]


STUDY = Study(
    id="A69",
    system="CCL-D",
    family="training",
    strength="strong",
    claims=[Claim("near-complete coverage, with the rank named", 0.9, 1.0, figure="named")],
    rests_on={
        "runs that hang, with calls under way": "simulator/results/hung.py",
        "bytes moved by each rank": "simulator/engine/progress.py",
        "culprits from numbers and sizes of calls": "insight/diagnosis/hangs.py",
    },
    cases=cases,
    sides={
        "CCL-D": [{"by": "probe", "tie": "first"}],
        "dump after a timeout": [{"by": "dump", "tie": "first"}, {"by": "dump", "tie": "last"}],
    },
    idea="CCL-D",
    measure=measure,
    better=("named", "max"),
    health="named",
    gone=lambda case: bool(case["kind"] == "never enters"),
    ablate={"probes": {"by": "dump"}},
    predictions={
        "kind and rank are right in 95 % of draws": lambda t: least(t.figure("named")) - 0.95,
        "a dump names no slow rank and no slow link": lambda t: least(
            0.2 - t.figure("named", "dump after a timeout", kind=lambda k: k.startswith("slow"))
        ),
        "a dump is enough where a rank never enters": lambda t: least(
            t.figure("rank", "dump after a timeout", kind="never enters") - 0.95
        ),
    },
    decides="whether the job stops at all: what only slows it leaves nothing for a dump.",
    cannot_say="The bytes and the time that probes cost in a real library, and anomalies that come and go.",
)
