"""A54, ResiHP: a detector that knows how much work each replica had, and micro-batches that move away.

In a series of steps over documents of many lengths one replica becomes slow. A threshold on the time of a
step fires on long documents; a replica's time over the time that its documents should take does not. Once a
replica is named, it gets fewer micro-batches, or is dropped, if that makes steps shorter; a wrong alarm
costs the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.arrays import F64
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.varying_steps import JITTER, VaryingSteps, drawn, quotas

REPLICAS, STEPS, ONSET, QUOTA = 16, 40, 12, 8
WINDOW = 4
"""Steps whose mean is judged: the scatter of a judgement is half that of a step."""
REPLAN_STEPS = 2.0
"""What moving work costs, in steps: groups are formed anew and nothing is loaded."""


def run(case: Case, setting: Setting, rng: np.random.Generator) -> tuple[float, float, float]:
    """Seconds of all steps, share of healthy steps with an alarm, and whether the slow replica was named."""
    shares = drawn(REPLICAS, STEPS, QUOTA, case["mean"], rng)
    victim = int(rng.integers(REPLICAS))
    slow = np.ones((STEPS, REPLICAS))
    slow[ONSET:, victim] = case["factor"]
    noise = np.exp(JITTER * rng.standard_normal((STEPS, REPLICAS)))
    work = VaryingSteps(shares, slow).work
    counts = np.full(REPLICAS, QUOTA)
    total = alarms = 0.0
    named, seen = -1, []
    for step in range(STEPS):
        mine = work[step].mean(axis=1) * counts
        times = mine * slow[step] * noise[step]
        total += float(times.max())
        if named >= 0 or setting["detector"] == "none":
            continue
        seen.append(paces(times, mine, setting))
        pace = np.mean(seen[-WINDOW:], axis=0)
        if len(seen) < WINDOW or pace.max() <= 1 + setting["over"]:
            continue
        alarms += float(step < ONSET)
        named = int(np.argmax(pace))
        speed = np.ones(REPLICAS)
        speed[named] = 1 / seen[-1][named]  # the mean still holds steps of before
        given = speed * (np.arange(REPLICAS) != named) if setting["action"] == "drop" else speed
        moved = quotas(given, REPLICAS * QUOTA)
        if (moved / speed).max() < (counts / speed).max():
            counts = moved
            total += REPLAN_STEPS * float(times.mean())
    return total, alarms / ONSET, float(named == victim and case["factor"] > 1)


def paces(times: F64, work: F64, setting: Setting) -> F64:
    """How much longer each replica took than the middle one: for its work, or as it is."""
    pace = times / work if setting["detector"] == "work" else times
    return np.asarray(pace / np.median(pace))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Steps per second over the runs of a seed, with false alarms and replicas found."""
    count = case["runs"]

    def all_runs(given: Case, chosen: Setting) -> list[F64]:
        runs = [run(given, chosen, np.random.default_rng([seed, k])) for k in range(count)]
        return [np.array(column) for column in zip(*runs, strict=True)]

    seconds, false, found = all_runs(case, setting)
    healthy = all_runs({**case, "factor": 1.0}, {"detector": "none"})[0]
    return {
        "rate": count * STEPS / float(seconds.sum()),
        "false": float(false.mean()),
        "found": float(found.mean()),
        "health": float(np.sum(healthy) / seconds.sum()),
    }


def cases(quick: bool) -> Sequence[Case]:
    """From no slow replica to one of a third of the speed, with documents of many lengths and of one."""
    factors, runs = (1.0, 1.05, 1.2, 1.5, 3.0), 2 if quick else 20
    means = (2048,) if quick else (2048, 8192)
    return [{"mean": mean, "factor": f, "runs": runs} for mean in means for f in factors]


OVER = (0.025, 0.03, 0.035)
STUDY = Study(
    id="A54",
    system="ResiHP",
    family="training",
    strength="strong",
    claims=[Claim("1.04 to 4.39 times the throughput under failures", 1.04, 4.39)],
    rests_on={
        "work of documents": "workloads/samples/batchers.py",
        "micro-batches that move between replicas": "workloads/samples/dealing.py",
        "time of a micro-batch": "machines/device/work.py",
    },
    cases=cases,
    sides={
        "ResiHP": [{"detector": "work", "action": "move", "over": x} for x in OVER],
        "threshold, moves": [
            {"detector": "time", "action": "move", "over": x} for x in (0.1, 0.3, 1.0)
        ],
        "threshold, drops": [
            {"detector": "time", "action": "drop", "over": x} for x in (0.1, 0.3, 1.0)
        ],
        "nothing done": [{"detector": "none", "action": "move", "over": 0.0}],
    },
    idea="ResiHP",
    untuned=["nothing done"],
    measure=measure,
    better=("rate", "max"),
    health="health",
    gone=lambda case: bool(case["factor"] == 1.0),
    ablate={"knowing the work": {"detector": "time"}},
    predictions={
        "at most 1 % of healthy steps raise an alarm": lambda t: (
            0.01 - most(t.figure("false", mean=2048))
        ),
        "a replica that is 5 % slow is named in 95 % of runs": lambda t: (
            least(t.figure("found", factor=1.05, mean=2048)) - 0.949
        ),
        "a threshold on times misses it": lambda t: (
            0.5 - most(t.figure("found", "threshold, moves", factor=1.05, mean=2048))
        ),
        "the gain grows with slowness": lambda t: (
            least(t.gains("nothing done", factor=3.0)) - most(t.gains("nothing done", factor=1.5))
        ),
        "nothing is lost where nobody is slow": lambda t: 0.02 - most(abs(t.gains(factor=1.0) - 1)),
    },
    decides="how severe the slowness is: at a third of the speed a plain threshold sees it too.",
    amended="A replica that is 20 % slow was added to the cases: between one that is hardly slow and one "
    "that any threshold sees. First every step was judged by itself, four in a row had to agree, and a "
    "replica that was named always lost work: alarms came in 3.5 % of healthy steps, and a replica 5 % slow "
    "was named in 62 % of runs. Now the mean of four is judged, for all sides; work moves where it pays.",
    cannot_say="New sizes of tensor-parallel groups and layers that move, which the publication also plans.",
)
