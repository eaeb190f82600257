"""A17, EEP: one rank of a wide expert-parallel engine fails, and the others go on without it.

The lost experts come from the nearest tier that has them, while all ranks pause; then the others serve on
with more experts each. The comparator restarts the whole engine, with weights from as near as it likes. A
failure is detected as fast either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.serving import RankFailure, ServedRun, ServingSession, serving_of
from chakrakit.serving.requests import requests_from

DETECT, REBUILD = 5.0, 3.0
"""Seconds to notice a failure and to agree on who is left: assumed, of the published pause of 11 s."""
PATIENCE = 10.0
"""Seconds that a request waits for its first token."""
LOST_GB = 64 / 8 * 3 * 2048 * 1408 * 2 * 26 / 1e9
"""Experts of one of eight ranks: 64 experts of three 2,048 × 1,408 matrices in bf16, in 26 layers."""


@cache
def engine(ranks: int) -> ServingSession:
    """One engine of ranks with attention of their own and experts in common."""
    return serving_of(
        "deepseek-v3-16b",
        "dgx-h100",
        "poisson{rate=1,n=1}",
        "vllm{max_num_seqs=16}",
        dp=ranks,
        ep=ranks,
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Share of requests after the failure that began in time, the pause, and the rate without a rank."""
    restart, ranks = case["restart"] * setting["warm"], case["ranks"]
    at, horizon = 4.0, max(120.0, case["restart"] + DETECT)
    rate, count = case["rate"], round(case["rate"] * (at + horizon))
    text = f"poisson{{rate={rate},n={count},prompt=256,output=32,seed={seed}}}"
    if setting["recover"] == "restart":
        return restarted(ranks, text, at, DETECT + restart)
    session = replace(engine(ranks), stream=requests_from(text))
    failure = RankFailure(
        at_s=at, rank=1, tier_gbps=setting["gbps"], detect_s=DETECT, rebuild_s=REBUILD, away_s=0.0
    )
    session = replace(session, rank_faults=[failure])
    done = session.served(record_steps=True)
    starts = np.sort(done.outcome.steps["start"]) * 1e-12
    refill = float(starts[starts > at][0]) - at - DETECT - REBUILD
    figures = {"pause_off": abs(refill / (LOST_GB * 8 / ranks / setting["gbps"]) - 1)}
    if case["shrinks"]:
        figures["shrunk"] = shrunk(ranks, seed)
    return {**in_time(done, at), **figures}


@cache
def restarted(ranks: int, text: str, at: float, outage: float) -> Figures:
    """The same of an engine that is down as a whole; several settings and sides have the same outage."""
    session = replace(engine(ranks), stream=requests_from(text), faults=[(at, 0, outage)])
    return in_time(session.served(), at)


def in_time(done: ServedRun, at: float) -> Figures:
    """The share of requests that came after the failure and had their first token in time."""
    first, arrival = (done.outcome.requests[name] * 1e-12 for name in ("first", "arrival"))
    later = arrival > at
    return {"in_time": float((first - arrival <= PATIENCE)[later].mean())}


@cache
def shrunk(ranks: int, seed: int) -> float:
    """Throughput of a full engine that decodes after it lost a rank, over that of one that did not."""
    count = f"concurrency={ranks * 16},n={ranks * 16}"
    stream = requests_from(f"closed{{{count},prompt=lognormal:64:0.5,output=1000,seed={seed}}}")
    rates = []
    for failures in ([], [RankFailure(at_s=3.0, rank=1, tier_gbps=1e6)]):
        session = replace(engine(ranks), stream=stream, rank_faults=failures)
        steps = session.served(record_steps=True).outcome.steps
        start, end = steps["start"] * 1e-12, steps["end"] * 1e-12
        inside = (start >= 3.3) & (end <= 5.2)
        rates.append(steps["tokens"][inside].sum() / (end[inside].max() - start[inside].min()))
    return float(rates[1] / rates[0])


def cases(quick: bool) -> Sequence[Case]:
    """How long a restart takes, and how busy the engine is."""
    if quick:
        return [{"ranks": 8, "rate": 1, "restart": r, "shrinks": 0} for r in (3.0, 60.0, 80.0)]
    rows = [(8, 1, 348.0), (8, 2, 60.0), (4, 1, 60.0), (8, 1, 3.0)]
    return [{"ranks": n, "rate": r, "restart": s, "shrinks": int(n == 8)} for n, r, s in rows]


def one(recover: str, gbps: float = 0.0, warm: float = 1.0) -> Setting:
    """A restart, with a share of its time where weights are near; or the others go on, from a tier."""
    return {"recover": recover, "gbps": gbps, "warm": warm}


STUDY = Study(
    id="A17",
    system="EEP",
    family="serving",
    strength="strong",
    claims=[
        Claim("a pause of 11 s in place of an outage of 348 s", 1.02, 1.02),
        Claim("pauses of 11 s and 8 s", 1.0, 1.0, kind="calibrated"),
        Claim("at most 4.4 % slower without failures", 1.0, 1.0, kind="not simulable"),
    ],
    rests_on={
        "a rank that fails alone, and the refill of its experts": "serving/ranks.py",
        "steps of fewer ranks with more experts each": "serving/steps/modelled.py",
        "requests that start again elsewhere": "serving/cluster.py",
    },
    cases=cases,
    sides={
        "EEP": [one("go on", 300.0), one("go on", 25.0), one("go on", 3.0)],
        "restart": [one("restart", warm=w) for w in (1.0, 0.8, 0.6)],
        "cold restart": [one("restart")],
    },
    idea="EEP",
    untuned=["cold restart"],
    measure=measure,
    better=("in_time", "max"),
    health="in_time",
    gone=lambda case: bool(case["restart"] < 10),
    ablate={"going on with the other ranks": {"recover": "restart"}},
    predictions={
        "the refill takes the lost bytes over the tier's bandwidth, within 5 %": lambda t: (
            0.05 - most(t.figure("pause_off"))
        ),
        "without a rank of n the throughput is (n - 1) / n, within 3 %": lambda t: (
            0.03 - most(abs(t.figure("shrunk", ranks=8) - 7 / 8))
        ),
        "more begins in time than with any restart that takes a minute": lambda t: (
            least(t.gains(restart=lambda s: s >= 60)) - 1.02
        ),
        "a restart of seconds is as good": lambda t: 0.02 - most(abs(t.gains(restart=3.0) - 1)),
    },
    decides="how long the restart takes: pauses are seconds, and the rest follows from the load.",
    amended="The rate without a rank came from a run in which requests came and went; since steps with "
    "prompts take what launching them takes, it was 0.93. Now a full engine decodes, with and without loss: "
    "seven ranks read more experts each.",
    cannot_say="What indirect membership costs while nothing fails, and how long noticing a failure takes.",
)
