"""A64, Nitsum: the degree of tensor parallelism changes while serving, as the mix of service levels does.

Four devices are four engines, two or one. Some phases have requests that want their tokens fast, which only a
large degree gives; others have many that want to be done soon, which four engines serve best. A change costs
the weights and caches that devices lack, times a factor that is swept. Comparators are degrees that stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.reshaping import DEGREES, ByTier, drifting, specs
from chakrakit.serving import Fleet, Setup, hooks_of, run
from chakrakit.serving.requests import stream_of

FAST_S, SOON_S = 0.0055, 1.5
"""Seconds for each token of a request that wants them fast, and in all for one that wants to be done."""


@cache
def engines() -> tuple[Fleet, Setup]:
    """Four devices in all their shapes; step times are worked out once."""
    fleet = Fleet(specs=specs(DEGREES), stream=stream_of([0.0], [1500], [150]), router="least")
    return fleet, fleet.setup


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Requests a second within their own level."""
    stream = drifting(case["phases"].split(), case["seconds"], seed)
    (fleet, setup), price = engines(), case["price"]
    setup = replace(
        setup,
        stream=stream,
        hooks=hooks_of(ByTier(setting["patience"], setting["start"])),
        open_seconds=lambda e, n: price * fleet.open_seconds(e, n),
    )
    done = run(setup).requests
    first, finish, arrival = (done[name] * 1e-12 for name in ("first", "finish", "arrival"))
    fast = (stream.priority == 0) & (finish - first <= FAST_S * (stream.output - 1))
    soon = (stream.priority == 1) & (finish - arrival <= SOON_S)
    met = float((fast | soon).mean())
    return {"goodput": met * len(stream) / float(finish.max()), "met": met}


def cases(quick: bool) -> Sequence[Case]:
    """Mixes that change or stay, and what a change costs."""
    seconds = 8.0 if quick else 20.0
    drifts = [("fast many fast", price) for price in ((1, 3000) if quick else (1, 30, 300, 3000))]
    steady = [] if quick else [("fast fast", 1), ("many many", 1)]
    rows = [*drifts, *steady, *([("fast fast", 1)] if quick else [])]
    return [{"phases": phases, "price": price, "seconds": seconds} for phases, price in rows]


NEVER = 10**6


def one(patience: int, start: int) -> Setting:
    """For how many seconds a change of degree must be wanted, and the degree at the start."""
    return {"patience": patience, "start": start}


STUDY = Study(
    id="A64",
    system="Nitsum",
    family="serving",
    strength="strong",
    claims=[Claim("up to 5.3 times the goodput", 5.3, 5.3, figure="gain over degree 1")],
    rests_on={
        "engines that take over devices, weights and caches": "serving/fleet.py",
        "step times by degree": "serving/steps/modelled.py",
        "messages over the links": "serving/steps/collectives.py",
    },
    cases=cases,
    sides={
        "Nitsum": [one(1, 4), one(NEVER, 2), one(NEVER, 4)],
        "a degree that stays": [one(NEVER, degree) for degree in DEGREES],
        "degree 1": [one(NEVER, 1)],
    },
    idea="Nitsum",
    untuned=["degree 1"],
    measure=measure,
    better=("goodput", "max"),
    health="met",
    gone=lambda case: bool(case["price"] >= 3000 or "fast many" not in case["phases"]),
    ablate={"changing the degree": {"patience": NEVER, "start": 1}},
    predictions={
        "better than every degree that stays where a change is cheap": lambda t: (
            least(t.gains("a degree that stays", phases="fast many fast", price=1)) - 1.02
        ),
        "no better than the best degree where a change is dear": lambda t: (
            1.001 - most(t.gains("a degree that stays", price=3000))
        ),
        "no gain where the mix stays": lambda t: (
            0.02 - most(abs(t.gains("a degree that stays", phases="fast fast") - 1))
        ),
    },
    decides="what a change costs: weights over NVLink take little of a phase of twenty seconds, and minutes "
    "are more than the phase.",
    cannot_say="How the published system chooses its degrees; the one here knows the tier of every request.",
)
