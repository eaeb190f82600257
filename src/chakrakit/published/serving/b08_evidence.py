"""B08, incentives and evidence: policies whose observations are as imperfect as they are in production.

Three decisions (how many engines are on, where requests go, which tasks run next) are made by a policy that
knows more than the rules that production uses. Observations come late or noisy, the load shifts, or tenants
whom nobody controls take a part. Comparators are tuned in each case; the rule as it was shipped is there to
show what a comparator that collapses does to a figure. What counts is the mean time of a request or job, and
of engines that were paid for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, certain, least, most
from chakrakit.published.serving.orchestration import Chooser, Router, Scaler, Seen, load, workers

POLICIES: dict[str, Any] = {"scaling": Scaler, "routing": Router, "scheduling": Chooser}
PRICE = 1.0
"""Seconds of waiting that a second of an engine is worth."""
SIZES = {"none": 0.0, "lag": 8.0, "noise": 0.5, "shift": 1.5, "tenants": 0.3}
"""How large each disturbance is: seconds, the deviation of a logarithm, factors of the load."""

NONSENSE = 2.0
"""Noise with which an observation is off by a factor of seven or more in every third look."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean seconds of a request or job with what its engines cost, and the share of its usual speed."""
    system, span = case["system"], case["seconds"]
    seconds = taken(system, span, case["disturbed"], case["size"], seed, **setting)
    usual = taken(system, span, "none", 0.0, seed, "static", 1.0)
    return {"seconds": seconds, "as_usual": usual / seconds}


@cache
def taken(
    system: str, span: float, kind: str, size: float, seed: int, rule: str, knob: float
) -> float:
    """Mean seconds of a request or job, and of the engines that were paid for it."""
    seen = Seen(size if kind == "lag" else 0.0, size if kind == "noise" else 0.0, seed)
    shift, tenants = size if kind == "shift" else 1.0, size if kind == "tenants" else 0.0
    stream = load(system, span, shift, tenants, seed)
    policy = POLICIES[system](rule, knob, seen)
    done = workers(system).served(stream, policy=policy, router="least").outcome
    own = stream.adapter == 0
    finish, arrival = (done.requests[name][own] * 1e-12 for name in ("finish", "arrival"))
    assert stream.group is not None
    ends = np.zeros(int(stream.group.max()) + 1)
    np.maximum.at(ends, stream.group[own], finish - arrival)
    on = sum(int(t["on"]) for t in done.totals) * 1e-12 / own.sum() if system == "scaling" else 0.0
    return float(ends[ends > 0].mean()) + PRICE * on


def cases(quick: bool) -> Sequence[Case]:
    """Every system with every disturbance, less lag, and noise that leaves nothing to see."""
    systems = list(POLICIES)[:1] if quick else list(POLICIES)
    kinds = ("none", "lag") if quick else tuple(SIZES)
    rows = [(system, kind, SIZES[kind]) for system in systems for kind in kinds]
    rows += [(system, "noise", NONSENSE) for system in systems]
    if not quick:
        rows += [("scaling", "lag", 2.0), ("routing", "lag", 1.0)]
    return [
        {"system": s, "disturbed": d, "size": x, "seconds": 60 if quick else 120}
        for s, d, x in rows
    ]


def rules(rule: str, knobs: Sequence[float]) -> list[Setting]:
    """A rule with each of its knobs: engines' load, how many are drawn or have places, a share of all."""
    return [{"rule": rule, "knob": knob} for knob in knobs]


STUDY = Study(
    id="B08",
    system="Incentives and evidence in learned orchestration",
    family="serving",
    strength="strong",
    claims=[
        Claim(
            "about 40 times as good as an autoscaler where observations are late",
            40.0,
            40.0,
            figure="gain over as shipped",
            where={"system": "scaling", "disturbed": "lag"},
        ),
        Claim("margins that can be reproduced are far smaller", 1.02, 1.02),
        Claim(
            "one result cannot be rebuilt from what was published", 1.0, 1.0, kind="not simulable"
        ),
    ],
    rests_on={
        "engines that start late": "serving/policies.py",
        "queues of workers": "serving/service.py",
        "tasks of a job that end together": "serving/requests/stream.py",
    },
    cases=cases,
    sides={
        "the policy": rules("policy", (0.4, 0.6, 0.8)),
        "tuned": rules("tuned", (0.4, 0.6, 0.8, 1.0, 2.0, 3.0)),
        "static": rules("static", (0.5, 0.67, 0.84, 1.0)),
        "as shipped": rules("shipped", (0.8,)),
    },
    idea="the policy",
    untuned=["as shipped"],
    measure=measure,
    better=("seconds", "min"),
    health="as_usual",
    gone=lambda case: bool(case["disturbed"] == "noise" and case["size"] == NONSENSE),
    ablate={"what the policy knows": {"rule": "static", "knob": 0.84}},
    predictions={
        "where observations are late, the autoscaler as shipped has collapsed": lambda t: (
            0.5 * t.figure("as_usual", "as shipped", system="scaling", disturbed="none")[0]
            - t.figure("as_usual", "as shipped", system="scaling", disturbed="lag", size=8.0)[0]
        ),
        "over a tuned autoscaler the gain there is less than a quarter of it": lambda t: (
            0.25 * least(t.gains("as shipped", system="scaling", disturbed="lag", size=8.0))
            - most(t.gains("tuned", system="scaling", disturbed="lag", size=8.0))
        ),
        "which router is best turns with the size of the lag": lambda t: (
            least(t.gains("tuned", system="routing", disturbed="lag", size=1.0))
            - most(t.gains("tuned", system="routing", disturbed="lag", size=8.0))
        ),
        "noise of a factor of seven takes away what a scheduler by work gains": lambda t: (
            1.05 - most(t.gains("static", system="scheduling", disturbed="noise", size=NONSENSE))
        ),
        "most disturbances turn no conclusion around": lambda t: certain(
            float(np.mean(t.gains(disturbed=lambda d: d != "none").mean(axis=1) > 1)) > 0.5,
            len(t.seeds),
        ),
    },
    decides="the comparator. A fixed number of engines, and workers in turn, look at nothing and beat every "
    "policy here that looks late; rules as they are shipped collapse, by factors of 8 and 20, and so make "
    "any policy look good. A scheduler by work keeps its gain under all but the lag, which hides jobs.",
    amended="In the first quick run scalers began with one engine, and requests went to engines in turn; now "
    "they begin with half of them, and requests go to the shortest queue. Engines cost a fifth as much, so "
    "that all of them were best, and the policy had no damping. After the first full run the figure for "
    "collapse became comparable between systems, and a router that draws none draws one. Loads were lowered "
    "and runs shortened after a first full run had been stopped as too slow.",
    cannot_say="What the three published systems do: the policies here are rules that know more than their "
    "comparators, not networks that were trained.",
)
