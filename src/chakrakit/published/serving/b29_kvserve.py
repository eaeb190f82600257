"""B29, KVServe: caches are compressed on their way from prefill to decode engines, as the link asks for it.

A profile is a codec: how much smaller, and how fast it encodes and decodes. The controller takes, for each
move, the profile whose time at the link's bandwidth of now is the shortest; the comparator takes one profile
for all, the best one. A choice that knows the bandwidth of the whole run is there to be measured against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.profiles import PROFILES, ByBandwidth, ByFuture, FixedProfile
from chakrakit.serving import ServingSession, serving_of
from chakrakit.serving.requests import requests_from

DEVICE = {
    "name": "h100-like",
    "peak": {"bf16": "989 TFLOP/s"},
    "memory": "80 GB",
    "memory_bandwidth": "3.35 TB/s",
    "compute_efficiency": 0.5,
    "memory_efficiency": 0.8,
}
SPEEDS = {
    "fast": (1.0,),
    "changing": (1.0, 0.025, 0.2, 1.0, 0.01),
    "slow": (0.025,),
    "scarce": (0.0025,),
}
"""Factors of 400 Gb/s, a tenth of the run each: 10 Gb/s is what a shared cloud link leaves."""


@cache
def machine() -> Machine:
    """Eight devices, each alone in its node."""
    network = [
        {"topology": "switch", "size": 1, "bandwidth": "450 GB/s"},
        {"topology": "switch", "size": 8, "bandwidth": "400 Gb/s", "latency": "10 us"},
    ]
    return parse_machine({"device": DEVICE, "network": network}, "eight nodes")


@cache
def engines() -> ServingSession:
    """Two engines for prompts and two for answers; step times are worked out once."""
    return serving_of(
        "llama-3.1-8b",
        machine(),
        "poisson{rate=1,n=1,prompt=3000}",
        "vllm",
        prefill=2,
        decode=2,
        compute="roofline",
        codecs=PROFILES,
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean seconds of a request, and how fast requests came through."""
    count, rate = case["requests"], case["rate"]
    text = f"poisson{{rate={rate},n={count},prompt=lognormal:3000:0.8,output=16,seed={seed}}}"
    factors, tenth = SPEEDS[case["link"]], count / rate / 10
    schedule = [(tenth * i, factors[i % len(factors)]) for i in range(40)]
    chosen = {"fixed": FixedProfile, "now": ByBandwidth, "future": ByFuture}[setting["choose"]]
    policy = chosen(engines(), setting["profile"], schedule)
    stream = requests_from(text)
    session = replace(engines(), stream=stream, policy=policy, link_schedule=schedule)
    done = session.served().outcome.requests
    finish, arrival = (np.asarray(done[name]) * 1e-12 for name in ("finish", "arrival"))
    return {
        "seconds": float((finish - arrival).mean()),
        "kept_up": float(arrival.max() / finish.max()),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Links that stay fast or slow, and links that change."""
    count, rates = (40, (4,)) if quick else (80, (3, 8))
    links = list(SPEEDS)[: 3 if quick else 4]
    return [{"link": k, "rate": rate, "requests": count} for k in links for rate in rates]


def one(choose: str, profile: int = 0) -> Setting:
    """How the profile of a move is chosen."""
    return {"choose": choose, "profile": profile}


STUDY = Study(
    id="B29",
    system="KVServe",
    family="serving",
    strength="strong",
    claims=[
        Claim("jobs up to 9.13 times as fast", 9.13, 9.13, figure="gain over no compression"),
        Claim(
            "first token up to 32.8 times as fast from a store", 32.8, 32.8, kind="not simulable"
        ),
    ],
    rests_on={
        "time of a move by codec and bandwidth": "serving/links.py",
        "links whose bandwidth changes": "machines/schedule.py",
        "queues of moves at an engine's ports": "serving/cluster.py",
    },
    cases=cases,
    sides={
        "KVServe": [one("now")],
        "one profile": [one("fixed", i) for i in range(len(PROFILES))],
        "no compression": [one("fixed")],
        "knows the future": [one("future")],
    },
    idea="KVServe",
    untuned=["no compression", "knows the future"],
    measure=measure,
    better=("seconds", "min"),
    health="kept_up",
    gone=lambda case: bool(case["link"] != "changing"),
    ablate={"the bandwidth of now": {"choose": "fixed", "profile": 2}},
    predictions={
        "within 5 % of a choice that knows the bandwidth of the whole run": lambda t: (
            least(t.gains("knows the future")) - 0.95
        ),
        "better than every profile alone where the link changes": lambda t: (
            least(t.gains("one profile", link="changing")) - 1.0
        ),
        "the profile that compresses most loses on a fast link": lambda t: np.array(
            [
                t.curve("profile", "seconds", case, "one profile")[len(PROFILES) - 1]
                - t.curve("profile", "seconds", case, "one profile")[0]
                for case in t.where(link="fast")
            ]
        ).min(keepdims=True),
        "no compression loses on a slow link": lambda t: (
            least(t.gains("no compression", link="slow")) - 1.5
        ),
        "no gain over the best profile where the link is steady": lambda t: (
            0.02 - most(abs(t.gains("one profile", link=lambda k: k != "changing") - 1))
        ),
    },
    decides="for how long a link is slow. Where it always is, jobs are 3 to 90 times as fast as without "
    "compression, and one profile is as good as a choice; where it changes, a choice saves 4 %.",
    cannot_say="What compression does to answers, and codecs' real rates, which are a table here. Caches "
    "move between engines; none is fetched from a store.",
)
