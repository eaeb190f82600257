"""B24, TierCheck: small differences to local and peer memory often, the whole state to remote storage seldom.

The times of writing and reading 40 billion parameters come from simulating 128 devices that use local memory,
their neighbours' memory and remote servers at once. With them, months of training with failures of a process,
of a node and of the whole cluster are played.
"""

from __future__ import annotations

from typing import Any

from chakrakit.campaigns import campaign, read_job
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.resilience.checkpoint_stores import CHANGED, NODES, seconds

RATES = {
    "frequent": (3, 12, 240),
    "process only": (3, 1e6, 1e6),
    "outages only": (1e6, 1e6, 48),
    "rare": (500, 1000, 5000),
}
"""Hours between failures of a process, of a node and of the cluster."""


def checkpoint(setting: Setting, seed: int) -> dict[str, Any]:
    """How checkpoints are written."""
    every = setting["every"]
    whole, back = seconds("remote", 1, False, seed), seconds("remote", 1, True, seed)
    if setting["policy"] == "synchronous":
        return {
            "policy": "interval",
            "interval_steps": every,
            "seconds": whole,
            "restore_seconds": back,
        }
    if setting["policy"] == "asynchronous":
        hidden = {"snapshot_seconds": 1, "seconds": whole, "restore_seconds": back}
        return {"policy": "asynchronous", "interval_steps": every, **hidden}
    alone = setting["policy"] == "peers alone"
    near = [
        {
            "interval_steps": every * times,
            "seconds": seconds(store, CHANGED, False, seed),
            "restore_seconds": seconds(store, 1, True, seed),
            "survives": survives,
        }
        for store, times, survives in (("local", 1, "process"), ("peers", 4, "node"))
        if not alone or store == "peers"
    ]
    if alone:
        return {"policy": "tiered", "tiers": near}
    far = {"interval_steps": every * 16, "seconds": 1, "write_seconds": whole}
    return {
        "policy": "tiered",
        "tiers": [*near, {**far, "restore_seconds": back, "survives": "cluster"}],
    }


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of thirty days that training went on, and the seconds for which a difference stops it."""
    scopes = zip(("process", "node", "cluster"), RATES[case["failures"]], strict=True)
    processes = [{"name": s, "of": "job", "takes": s, "mtbf_hours": hours} for s, hours in scopes]
    job = {
        "step_seconds": 5,
        "days": 30,
        "cluster": {"nodes": NODES, "spares": 4, "repair_hours": 24},
        "failures": {"processes": processes},
        "checkpoint": checkpoint(setting, seed),
        "recovery": {"policy": "restart", "detection_seconds": 20, "restart_seconds": 60},
    }
    result = campaign(read_job(job), histories=case["histories"], seed=seed, changes=False)
    tiered = setting["policy"] == "tiered"
    stops = max(seconds(s, CHANGED, False, seed) for s in ("local", "peers")) if tiered else 0.0
    own = {"checkpoint_s": stops, "remote_s": seconds("remote", 1, False, seed)} if tiered else {}
    return {"effective": result.effective_ratio.mean, **own}


STUDY = Study(
    id="B24",
    system="TierCheck",
    family="resilience",
    strength="strong",
    claims=[
        Claim("checkpoints in under 10 s up to 40 billion parameters", 0, 10, figure="checkpoint_s")
    ],
    rests_on={
        "stores that many devices share": "simulator/engine/stored.py",
        "failures of a process, a node and a cluster": "campaigns/failures.py",
        "tiers of checkpoints": "campaigns/checkpoints.py",
    },
    cases=lambda quick: [
        {"failures": name, "histories": 2 if quick else 20}
        for name in RATES
        if not quick or name != "outages only"
    ],
    sides={
        "TierCheck": [{"policy": "tiered", "every": e} for e in (2, 5, 10, 20)],
        "remote, asynchronous": [
            {"policy": "asynchronous", "every": e} for e in (20, 50, 100, 200)
        ],
        "remote, synchronous": [
            {"policy": "synchronous", "every": e} for e in (20, 50, 100, 200, 400, 1000)
        ],
        "peers alone": [{"policy": "peers alone", "every": 5}],
    },
    idea="TierCheck",
    untuned=["peers alone"],
    measure=measure,
    better=("effective", "max"),
    health="effective",
    gone=lambda case: case["failures"] in ("rare", "outages only"),
    ablate={"the tiers": {"policy": "asynchronous"}},
    predictions={
        "the peer tier writes in under 1 s": lambda t: 1 - most(t.figure("checkpoint_s")),
        "a remote write takes tens of seconds": lambda t: least(t.figure("remote_s")) - 10,
        "a single peer tier loses the cluster's failures": lambda t: (
            least(t.gains("peers alone", failures="outages only")) - 1.02
        ),
        "tiers win where processes and nodes fail": lambda t: (
            least(t.gains(failures=lambda f: f in ("frequent", "process only"))) - 1.02
        ),
        "no gain with rare failures": lambda t: 1.02 - most(t.gains(failures="rare")),
    },
    decides="what an asynchronous write to remote storage hides: it leaves one second of each checkpoint, so "
    "that tiers only save the work between checkpoints, about 1 % here.",
    amended="the second and third prediction, which were made with a prototype, were added when an "
    "earlier record existed.",
    cannot_say="How large differences are, and what copying them takes from training.",
)
