"""B10, PLAIground: which model a task of a compound workflow calls is chosen while it runs, from budgets.

Requests of three tasks each arrive in bursts at three pools of models: a small, a middling and a large one.
A request is good for nothing after its deadline, and a purse pays for so much per request; once it is empty,
requests fail. The idea takes for each task the most accurate model that the time and the money left allow,
lines in front of the pools included. Fixed choices are tuned over all that never get less accurate from task
to task. What a request is worth is the mean accuracy of its tasks, from a table.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations_with_replacement

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.simulator import live

SECONDS, COST, ACCURACY = (0.2, 0.6, 2.0), (1.0, 5.0, 25.0), (0.80, 0.88, 0.93)
"""Of one call of the small, middling and large model. Assumed: the spread of hosted models' prices and of
their scores; cases sweep the budgets instead of trusting them."""
WIDTHS = (8, 8, 8)
TASKS, REQUESTS = 3, 240


class Purse:
    """What is left to spend, and what each pool still has to do."""

    def __init__(self, budget: float, setting: Setting, seed: int) -> None:
        self.money, self.requests = budget * REQUESTS, REQUESTS
        self.setting, self.backlog = setting, [0.0] * len(WIDTHS)
        self.random = random.Random(f"models {seed}")
        self.worth = self.in_time = 0.0

    def model(self, task: int, seconds_left: float) -> int:
        """The model of a request's next task."""
        fixed = self.setting["fixed"]
        if fixed == "drawn":
            return self.random.choices(range(3), [1, self.setting["margin"], 1])[0]
        if fixed:
            return int(fixed[task])
        ahead = TASKS - task
        time = self.setting["margin"] * seconds_left
        money = self.setting["margin"] * self.money / max(1, self.requests)
        fits = [m for m in range(3) if self._seconds(m, ahead) <= time and COST[m] * ahead <= money]
        return max(fits, default=0)

    def _seconds(self, model: int, ahead: int) -> float:
        """Until the task has ended, by what is known of the line, and the others after it."""
        return self.backlog[model] / WIDTHS[model] + SECONDS[model] * ahead


def _request(
    me: live.Actor, purse: Purse, pools: Sequence[live.Pool], deadline: float
) -> live.Program:
    end, worth = me.now / live.S + deadline, 0.0
    purse.requests -= 1
    for task in range(TASKS):
        model = purse.model(task, end - me.now / live.S)
        if purse.money < COST[model]:
            return
        purse.money -= COST[model]
        seconds = SECONDS[model] * me.random.lognormvariate(0.0, 0.25)
        purse.backlog[model] += seconds
        yield live.use(pools[model], seconds * live.S)
        purse.backlog[model] -= seconds
        worth += ACCURACY[model] / TASKS
    if me.now / live.S <= end:
        purse.worth += worth / REQUESTS
        purse.in_time += 1 / REQUESTS


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Accuracy that came in time and was paid for, per request; the share in time; what was spent."""
    purse = Purse(case["budget"], setting, seed)
    world = live.World(record=False, seed=seed)
    pools = [world.pool(f"model {m}", width) for m, width in enumerate(WIDTHS)]
    rng, now = random.Random(f"arrivals {seed}"), 0.0
    for number in range(REQUESTS):
        busy = number // 40 % 2 == 1  # every other forty requests come as a burst
        now += rng.expovariate(case["rate"] * (case["burst"] if busy else 1.0))
        name = f"request {number}"
        world.actor(_request, purse, pools, case["deadline"], name=name, at_ns=now * live.S)
    world.run()
    spent = case["budget"] - purse.money / REQUESTS
    return {"accuracy": purse.worth, "in_time": purse.in_time, "spent": spent / case["budget"]}


def cases(quick: bool) -> Sequence[Case]:
    """Deadlines, budgets and bursts; where both are loose the large model always does."""
    every = [(d, b, x) for d in (2.0, 4.0, 8.0) for b in (10.0, 30.0) for x in (1.0, 4.0)]
    points = [(4.0, 30.0, 4.0), (2.0, 10.0, 1.0)] if quick else every
    tight = [{"deadline": d, "budget": b, "burst": x, "rate": 1.5} for d, b, x in points]
    return [*tight, {"deadline": 60.0, "budget": 100.0, "burst": 1.0, "rate": 1.5}]


FIXED = ["".join(map(str, models)) for models in combinations_with_replacement(range(3), TASKS)]

STUDY = Study(
    id="B10",
    system="PLAIground",
    family="workflows",
    strength="direction",
    claims=[
        Claim("fixed models miss budgets, or 4 % of accuracy", 1.04, 1.04),
        Claim("up to 91.3 % accuracy under the budgets", 0.913, 0.913, kind="calibrated"),
        Claim("fixed models exceed budgets by up to 21 times", 21, 21, kind="not simulable"),
    ],
    rests_on={
        "a choice at the start of each task": "simulator/live/world.py",
        "lines in front of models": "simulator/live/pools.py",
    },
    cases=cases,
    sides={
        "by budgets": [{"fixed": "", "margin": m} for m in (0.6, 0.8, 1.0)],
        "fixed models": [{"fixed": f, "margin": 1.0} for f in FIXED],
        "drawn models": [{"fixed": "drawn", "margin": m} for m in (0.5, 1.0, 4.0)],
    },
    idea="by budgets",
    measure=measure,
    better=("accuracy", "max"),
    health="in_time",
    gone=lambda case: bool(case["deadline"] == 60.0),
    ablate={"looking at time and money left": {"fixed": "222"}},
    predictions={
        "over 4 % above the best fixed choice with bursts": lambda t: (
            least(t.gains("fixed models", burst=4.0)) - 1.04
        ),
        "never more than 1 % below it": lambda t: least(t.gains("fixed models")) - 0.99,
        "1 times where budgets are loose": lambda t: (
            0.02 - most(abs(t.gains("fixed models", deadline=60.0) - 1))
        ),
        "over 95 % of requests in time at a deadline of 8 s": lambda t: (
            least(t.figure("in_time", deadline=8.0)) - 0.95
        ),
    },
    decides="how often the best model of the moment changes: a fixed choice per task, tuned for its load, "
    "loses only what bursts and leftovers of the purse are worth.",
    cannot_say="Accuracies, which are a table's; the 21 times are those of choices that nobody would tune.",
)
