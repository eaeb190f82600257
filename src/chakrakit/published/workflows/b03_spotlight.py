"""B03, Spotlight: post-training of diffusion models with spot GPUs that also work while others train.

An iteration generates samples on 8 reserved and 16 spot GPUs and then trains on the reserved ones
(`spot_rollouts.py`). The idea lets spot GPUs explore with stale weights meanwhile, which spares a share of
the next samples, keeps what a preempted group had done, and regroups in half a second. Comparators use spot
GPUs for samples alone, or none. Cost is that of GPUs as long as they are held.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.workflows.spot_rollouts import RESERVED, SPOT, SpotRollouts
from chakrakit.simulator import live

SAMPLES, ITERATIONS, TRAINING_S = 96, 8, 60.0
"""Samples of an iteration, iterations, and seconds of training. Assumed; cases sweep what matters."""


def _trainer(
    me: live.Actor, rollouts: SpotRollouts, reserved: list[str], spot: list[str]
) -> live.Program:
    spared = 0
    for iteration in range(ITERATIONS):
        wanted = SAMPLES - spared
        yield from rollouts.begin([*reserved, *spot], wanted, training=False)
        while rollouts.finished < wanted:
            (message,) = yield live.receive()
            if message.body == "again":  # a sample came back: whoever waits may take it
                yield from rollouts.tell([*reserved, *spot])
        explores = rollouts.setting["explores"] and iteration < ITERATIONS - 1
        yield from rollouts.begin(spot, SAMPLES if explores else 0, training=True)
        yield live.sleep(TRAINING_S * live.S)
        spared = min(SAMPLES // 2, int(rollouts.finished * rollouts.case["useful"]))
    return me.now / live.S


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Cost and seconds of an iteration; which share of the spot GPUs' time was idle, and which was lost."""
    rollouts, sp = SpotRollouts(case, setting), setting["sp"]
    world = live.World(record=False, seed=seed)
    reserved = [f"reserved {i}" for i in range(RESERVED // sp)]
    spot = [f"spot {i}" for i in range(setting["spot"] // sp)]
    world.actor(_trainer, rollouts, reserved, spot, name="trainer")
    for name in [*reserved, *spot]:
        world.actor(rollouts.group, name in spot, name=name, daemon=True)
    seconds = float(world.run().returned["trainer"])
    held = max(0.0, setting["spot"] * seconds + rollouts.held_s)
    cost = RESERVED * seconds + (1 - case["discount"]) * held
    return {
        "cost": cost / 3600 / ITERATIONS,
        "seconds": seconds / ITERATIONS,
        "idle": 1 - (rollouts.busy_s + rollouts.lost_s) / held if held else 0.0,
        "lost": rollouts.lost_s / held if held else 0.0,
        "speed": 1 / seconds,
    }


def cases(quick: bool) -> Sequence[Case]:
    """Hours between preemptions of a GPU, discounts, what explored samples are worth; or none of all that."""
    hours = (0.5, 2.0) if quick else (0.25, 0.5, 2.0, 8.0)
    useful = (0.5,) if quick else (0.0, 0.5)
    spread = [{"hours_between": h, "discount": 0.73, "useful": u} for h in hours for u in useful]
    return [*spread, {"hours_between": 0, "discount": 0.0, "useful": 0.0}]


KEEPS = {"spot": SPOT, "keeps": True, "explores": True}
LOSES = {"spot": SPOT, "keeps": False, "explores": False}

STUDY = Study(
    id="B03",
    system="Spotlight",
    family="workflows",
    strength="direction",
    claims=[
        Claim("total cost 1.4 to 6.4 times lower", 1.4, 6.4),
        Claim("the same score 4 times faster", 4, 4, kind="not simulable"),
        Claim("spot GPUs cost 69 to 77 % less", 0.69, 0.77, kind="calibrated"),
        Claim("groups recover in under a second", 0.5, 0.5, kind="calibrated"),
    ],
    rests_on={
        "groups that are interrupted and take up work again": "simulator/live/world.py",
        "a queue that groups pull from": "simulator/live/verbs.py",
    },
    cases=cases,
    sides={
        "Spotlight": [{**KEEPS, "sp": sp} for sp in (1, 2, 4)],
        "spot for samples": [{**LOSES, "sp": sp} for sp in (1, 2, 4)],
        "reserved only": [{**LOSES, "sp": sp, "spot": 0} for sp in (1, 2, 4)],
    },
    idea="Spotlight",
    measure=measure,
    better=("cost", "min"),
    health="speed",
    gone=lambda case: bool(case["hours_between"] == 0),
    ablate={"exploring, and keeping what was done": {"keeps": False, "explores": False}},
    predictions={
        "over 1.4 times cheaper than reserved GPUs alone": lambda t: (
            least(t.gains("reserved only", useful=0.5)) - 1.4
        ),
        "less than 1.4 times cheaper than spot for samples": lambda t: (
            1.4 - most(t.gains("spot for samples", useful=0.5))
        ),
        "1 times without preemptions at equal prices": lambda t: (
            0.02 - most(abs(t.gains("spot for samples", hours_between=0) - 1))
        ),
        "spot GPUs are idle for less than a tenth": lambda t: (
            0.1 - most(t.figure("idle", useful=0.5))
        ),
    },
    decides="how long training is beside sampling: that is what exploring fills; a lost sample costs half a "
    "minute of one group, whatever the group is built from; and what is being explored when samples are "
    "wanted again delays them.",
    amended="After a trial samples were counted by phase.",
    cannot_say="How much sooner a score is reached with explored samples: their worth is assumed.",
)
