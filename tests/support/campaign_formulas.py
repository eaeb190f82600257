"""Formulas that a campaign's figures are checked with.

C is the time of a checkpoint, τ the interval between two, R a restart, M the mean time between failures.
J. T. Daly, Future Generation Computer Systems 22 (2006); A. K. Erlang (1917).
"""

from __future__ import annotations

import math


def expected_seconds(
    work: float, interval: float, checkpoint: float, restart: float, mtbf: float
) -> float:
    """Daly's complete model: exponential failures, which may also hit checkpoints and restarts.

    M·e^(R/M) · (n·(e^((τ+C)/M) − 1) + e^(rest/M) − 1), with n checkpoints before the end.
    """
    count = max(math.ceil(work / interval) - 1, 0)
    rest = work - count * interval
    each = count * math.expm1((interval + checkpoint) / mtbf)
    return mtbf * math.exp(restart / mtbf) * (each + math.expm1(rest / mtbf))


def expected_failures(
    work: float, interval: float, checkpoint: float, restart: float, mtbf: float
) -> float:
    """Failures within that time: one every M on average."""
    return expected_seconds(work, interval, checkpoint, restart, mtbf) / mtbf


def waiting_share(nodes: int, spares: int, mtbf: float, repair: float) -> float:
    """The share of time in which more nodes are in repair than there are spares, so that the job waits.

    Erlang's loss formula with spares + 1 places and an offered load of nodes·repair/M: failures come only
    while the job runs, each repair is its own, and the distribution of repair times does not matter.
    """
    load = nodes * repair / mtbf
    blocked = 1.0
    for places in range(1, spares + 2):
        blocked = load * blocked / (places + load * blocked)
    return blocked


def enough_nodes(installed: int, needed: int, availability: float) -> float:
    """The probability that at least `needed` of `installed` independent nodes work (binomial)."""
    return math.fsum(
        math.comb(installed, up) * availability**up * (1 - availability) ** (installed - up)
        for up in range(needed, installed + 1)
    )
