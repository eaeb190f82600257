"""A52, ROSE: rollouts of reinforcement learning use what engines for users leave, and give way to them.

Two engines are for rollouts and four for users, whose requests come in bursts. The idea sends rollouts to
engines of users while the time of a step allows it, and moves them away, with their caches, where users
wait. Comparators keep to their two engines, or start two more, which takes half a minute. Sending rollouts
anywhere is there to show what users then have to bear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.harvesting import (
    OWN,
    SERVING,
    SPARE,
    Cooperative,
    ElasticPool,
    FixedPool,
    Unsafe,
)
from chakrakit.published.serving.rollouts import ROLLOUT, Rollouts, Training
from chakrakit.serving import ServingSession, serving_of
from chakrakit.serving.requests import requests_from

TTFT_S, TOKEN_S = 0.5, 0.02
"""Seconds that users wait for the first token, and for each further one on average."""

PROMPT = 1000
"""Tokens of what an environment says before each of three turns."""


@cache
def engines() -> ServingSession:
    """All engines alike, one device each; step times are worked out once."""
    stream, count = "poisson{rate=1,n=1,prompt=4000}", OWN + SERVING + SPARE
    return serving_of("qwen3-14b", "dgx-h100", stream, "vllm", replicas=count, compute="roofline")


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Iterations an hour, and the share of users' requests within their level."""
    kind = f"bursts{{rate={case['rate']},size={case['burst']},n={round(case['rate'] * case['seconds'])}"
    users = requests_from(f"{kind},prompt=lognormal:600:1,output=lognormal:120:1,seed={seed}}}")
    plan = Training(
        1,
        case["sessions"],
        case["wait"],
        iterations=case["iterations"],
        prompt=PROMPT,
        output=case["output"],
    )
    source = Rollouts(plan, seed, users)
    session = replace(engines(), stream=source.stream, source=source, policy=policy_of(setting))
    done = session.served().outcome
    first, finish, arrival = (done.requests[n] * 1e-12 for n in ("first", "finish", "arrival"))
    asked = done.stream.priority != ROLLOUT
    fast = (finish - first <= TOKEN_S * (done.stream.output - 1)) | (done.stream.output < 10)
    met = ((first - arrival <= TTFT_S) & fast)[asked].mean()
    return {"iterations": 3600 * plan.iterations / max(source.ends.values()), "met": float(met)}


def policy_of(setting: Setting) -> Any:
    """Where rollouts go."""
    knob = setting["knob"]
    if setting["pool"] == "cooperative":
        return Cooperative(knob, TOKEN_S)
    return {"fixed": FixedPool, "elastic": ElasticPool, "unsafe": Unsafe}[setting["pool"]](knob)


def cases(quick: bool) -> Sequence[Case]:
    """Users who leave much, little or nothing; environments that answer slowly."""
    seconds, output, iterations = (3, 30, 1) if quick else (60, 1000, 2)
    size = {"seconds": seconds, "output": output, "iterations": iterations}
    rows = [(2, 8, 32, 2.0), (40, 32, 32, 2.0), (2, 8, 4, 2.0)]
    if not quick:
        rows = [(2, 8, 128, 2.0), (40, 32, 128, 2.0), (2, 8, 4, 2.0)]
        rows += [(15, 32, 128, 2.0), (2, 8, 128, 20.0), (2, 8, 256, 2.0)]
    return [{"rate": r, "burst": b, "sessions": s, "wait": w, **size} for r, b, s, w in rows]


def one(pool: str, knobs: Sequence[float]) -> list[Setting]:
    """A pool and its knob: the share of a token's time, or the requests of a full engine."""
    return [{"pool": pool, "knob": knob} for knob in knobs]


STUDY = Study(
    id="A52",
    system="ROSE",
    family="serving",
    strength="strong",
    claims=[
        Claim("at least 1.20 times the throughput", 1.2, 1.2),
        Claim("up to 3.31 times the throughput", 3.31, 3.31),
        Claim("users' level is kept", 0.95, 1.0, figure="met", where={"rate": 2}),
    ],
    rests_on={
        "rollouts, environments and steps that follow each other": "serving/requests/source.py",
        "requests that move with their caches": "serving/cluster.py",
        "the time of a step by what is in it": "serving/policy_views.py",
        "engines that take time to start": "serving/policies.py",
    },
    cases=cases,
    sides={
        "ROSE": one("cooperative", (0.7, 1.0)),
        "fixed pool": one("fixed", (24.0, 1e6)),
        "elastic pool": one("elastic", (4.0, 16.0)),
        "anywhere": one("unsafe", (1.0,)),
    },
    idea="ROSE",
    untuned=["anywhere"],
    measure=measure,
    better=("iterations", "max"),
    health="met",
    gone=lambda case: bool(case["sessions"] == 4),
    ablate={"engines of users": {"pool": "fixed", "knob": 1e6}},
    predictions={
        "more iterations than a fixed pool where users leave much": lambda t: (
            least(t.gains("fixed pool", rate=2, sessions=lambda s: s > 4)) - 1.2
        ),
        "less is gained where users are busy": lambda t: (
            least(t.gains("fixed pool", rate=2, sessions=lambda s: s > 4))
            - most(t.gains("fixed pool", rate=40))
        ),
        "users' level is kept for 95 % as long as it is without rollouts on their engines": lambda t: (
            least(t.figure("met") - t.figure("met", "fixed pool")) + 0.05
        ),
        "rollouts anywhere break it where users are busy": lambda t: (
            least(t.figure("met", "fixed pool", rate=40) - t.figure("met", "anywhere", rate=40))
            - 0.05
        ),
        "no gain where rollouts have room in their own pool": lambda t: (
            0.02 - most(abs(t.gains("fixed pool", sessions=4) - 1))
        ),
    },
    decides="how full the rollouts' own engines are: a batch twice as large takes little longer, so that "
    "more engines help where caches run short, up to 1.8 times over a fixed pool. Two engines that start in "
    "half a minute do most of the same, and environments that are slow leave nothing to gain.",
    amended="Three times after a quick run: rollouts became longer, so that their own engines are full; "
    "spare engines were kept from all but the elastic pool; rollouts of the idea begin on their own engines "
    "and move, where before their prompts had been computed between the tokens of users.",
    cannot_say="What training gains or loses by it. Weights of a new iteration are there at once on all "
    "engines; how they are sent is not counted.",
)
