"""A27, decomposition of cloud performance: what a year's seasons say of the next days scales a service ahead.

A known year of load has a daily, a weekly and a quarterly season, a trend and noise. The idea fits them and
starts engines before the load comes, as an engine takes an hour to start. Comparators expect what the same
hours of earlier days had, or go by the requests under way. What counts is the spread of latencies times the
engines that were paid for: either alone is easily bought with the other. All choose their target of use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.seasons import (
    DAYS,
    HOURS,
    Expected,
    Scaling,
    by_forecast,
    by_what_is_there,
    decomposed,
    habit,
    requests,
    service,
    year,
)

RATE = 10.0
"""Requests a second on average: a third of what all engines can do."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The spread of latencies times the engines on average, and how good the forecast was."""
    shape = (case["seasonal"], case["noise"], case["hours"], seed)
    own = served(*shape, **setting)
    reactive = served(*shape, "reactive", 0.7)
    figures = {"kept_up": own["kept_up"], "paid_spread": own["spread"] * own["engines"]}
    if setting["expect"] == "decomposed":
        figures["steadier"] = 1 - own["spread"] / reactive["spread"]
        figures["less_at_most"] = 1 - own["longest"] / reactive["longest"]
        figures |= accuracy(*shape)
    return figures


@cache
def served(
    seasonal: float, noise: float, hours: int, seed: int, expect: str, target: float
) -> dict[str, float]:
    """Latencies of the hours after the known year, and what engines they took."""
    data = year(seasonal, noise, hours, seed)
    ahead = len(data.later)
    expected: dict[str, Callable[[], Expected]] = {
        "decomposed": lambda: by_forecast(decomposed(data.known, ahead)[0], RATE),
        "yesterday": lambda: by_forecast(habit(data.known, ahead, 1), RATE),
        "last week": lambda: by_forecast(habit(data.known, ahead, 7), RATE),
        "reactive": lambda: by_what_is_there,
        "fixed": lambda: lambda _engines, _now: RATE,
    }
    policy = Scaling(expected[expect](), target)
    done = service().served(requests(data.later, RATE, seed), policy=policy).outcome
    seconds = (done.requests["finish"] - done.requests["arrival"]) * 1e-12
    end = float(done.requests["finish"].max()) * 1e-12
    return {
        "spread": float(seconds.std()),
        "longest": float(seconds.max()),
        "engines": sum(int(t["on"]) for t in done.totals) * 1e-12 / end,
        "kept_up": float(done.requests["arrival"].max() * 1e-12 / end),
    }


@cache
def accuracy(seasonal: float, noise: float, hours: int, seed: int) -> dict[str, float]:
    """Mean absolute errors of forecasts as shares, and the largest error of a season's size."""
    data = year(seasonal, noise, hours, seed)
    expected, sizes = decomposed(data.known, len(data.later))
    naive = habit(data.known, len(data.later), 7)
    off = max(abs(sizes[k] - size) for k, size in data.parts.items())
    errors = [float(np.mean(abs(f / data.later - 1))) for f in (expected, naive)]
    return {"mape": errors[0], "mape_naive": errors[1], "season_off": off}


def cases(quick: bool) -> Sequence[Case]:
    """Strong seasons, weak ones and none, with little noise and with much."""
    hours = 10 if quick else 96
    rows = [(1.0, 0.02), (1.0, 0.2), (0.0, 0.02)]
    if not quick:
        rows += [(0.5, 0.02), (0.0, 0.2)]
    return [{"seasonal": s, "noise": n, "hours": hours} for s, n in rows]


def one(expect: str, targets: Sequence[float] = (0.5, 0.6, 0.7, 0.8)) -> list[Setting]:
    """What load is expected, and the share of their time that engines are to be in use."""
    return [{"expect": expect, "target": target} for target in targets]


STRONG = {"seasonal": 1.0}
STUDY = Study(
    id="A27",
    system="Cloud performance decomposition",
    family="serving",
    strength="direction",
    claims=[
        Claim("a mean error of 1.8 to 2.1 %", 0.018, 0.021, kind="calibrated"),
        Claim(
            "latency varies by over 60 % less", 0.6, 1.0, figure="steadier", where={"seasonal": 1.0}
        ),
        Claim("the longest latency is 10 % less", 0.1, 1.0, figure="less_at_most", where=STRONG),
    ],
    rests_on={
        "engines that take time to start": "serving/policies.py",
        "queues of a service": "serving/service.py",
    },
    cases=cases,
    sides={
        "decomposed": one("decomposed"),
        "last week": one("last week"),
        "yesterday": one("yesterday"),
        "reactive": one("reactive"),
        "fixed": one("fixed"),
    },
    idea="decomposed",
    measure=measure,
    better=("paid_spread", "min"),
    health="kept_up",
    gone=lambda case: bool(case["seasonal"] == 0),
    ablate={"the seasons": {"expect": "fixed"}},
    predictions={
        "the size of every season is recovered to 0.01 of the mean load where noise is small": lambda t: (
            0.01 - most(t.figure("season_off", noise=0.02))
        ),
        "errors are smaller than those of last week's load": lambda t: (
            least(t.figure("mape_naive")) - least(t.figure("mape"))
        ),
        "steadier than reactive scaling where seasons are strong": lambda t: (
            least(t.gains("reactive", seasonal=1.0)) - 1.02
        ),
        "no better than a fixed number without seasons": lambda t: (
            1.02 - most(t.gains("fixed", seasonal=0.0))
        ),
    },
    decides="the comparator: latencies vary far less than with reactive scaling, and not less than by "
    "yesterday's load, which has the daily season too; whole engines hide better forecasts.",
    amended="After the first quick run numbers of engines were rounded, and no longer rounded up.",
    cannot_say=f"Whether real load has such seasons: a year here is {DAYS} days of {HOURS} hours with "
    "waves of known periods, whose noise sets the error of any forecast.",
)
