"""A37, QUANTAS 2: one description of a distributed algorithm, simulated and run over sockets.

Raft, PBFT and Chord are programs (`classic.py`) that were run over sockets of one machine, by threads that
send each other datagrams (`benchmarks/study_sockets.py`; `socket_runs.json` is what came of it). The same
programs, faults and random numbers are simulated: with events at any time on a network, or in abstract
rounds, in which every message takes one and timers count rounds. What is compared is how many messages were
sent and what nodes decided.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.protocols.classic import FAULTS, PROTOCOLS, cast, outcome
from chakrakit.simulator import live


@cache
def _over_sockets() -> dict[str, dict[str, float]]:
    runs: dict[str, dict[str, float]] = json.loads(
        (Path(__file__).parent / "socket_runs.json").read_text()
    )
    return runs


class Rounds:
    """A world in which time passes in rounds: sleeps and timeouts take whole ones."""

    def __init__(self, world: live.World, round_ns: float) -> None:
        self.world, self.round_ns = world, round_ns

    def actor(self, program: Callable[..., live.Program], *args: object, **options: Any) -> None:
        """An actor whose timers count rounds."""
        self.world.actor(self._rounded, program, args, **options)

    def _rounded(
        self, me: live.Actor, program: Callable[..., live.Program], args: tuple[object, ...]
    ) -> live.Program:
        running, value = program(me, *args), None
        while True:
            try:
                verb = running.send(value)
            except StopIteration as end:
                return end.value
            if verb.ns > 0:  # of these programs only a receive has a time
                whole = math.ceil(verb.ns / self.round_ns) * self.round_ns
                verb = live.receive(verb.objects[0], verb.size, whole)
            value = yield verb


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """How well messages and decisions agree with those over sockets: 1 where they are the same."""
    latency = setting["latency_ms"]
    site = {
        "topology": "switch",
        "size": 16,
        "bandwidth": "10 Gb/s",
        "latency": f"{latency / 2} ms",
    }
    world = live.World({"network": [site]}, seed=seed)
    rounds = Rounds(world, latency * live.MS)
    cast(rounds if setting["mode"] == "rounds" else world, case["protocol"], case["fault"])
    result = world.run()
    found = outcome(result.returned, result.summary.messages)
    real = _over_sockets()[f"{case['protocol']} {case['fault']} {seed}"]
    apart = [abs(found[k] / real[k] - 1) for k in ("messages", "decided")]
    return {
        "agreement": 1 / (1 + max(apart)),
        "messages": found["messages"],
        "decided": found["decided"],
        "safe": min(found["safe"], real["safe"]),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Protocols and what is wrong with their nodes; with nothing wrong time hardly matters."""
    return [{"protocol": p, "fault": f} for p in PROTOCOLS for f in FAULTS]


STUDY = Study(
    id="A37",
    system="QUANTAS 2",
    family="protocols",
    strength="direction",
    claims=[
        Claim("a simulation gives what sockets give", 0.9, 1.0, "ours", "agreement"),
        Claim("and does so better than abstract rounds", 1.02, 1.02, "ours"),
    ],
    rests_on={
        "programs that wait with timeouts": "simulator/live/verbs.py",
        "nodes that crash, and lose messages": "simulator/live/faults.py",
        "the same programs over sockets": "simulator/live/sockets.py",
    },
    cases=cases,
    sides={
        "events": [{"mode": "events", "latency_ms": x} for x in (0.05, 0.2, 1.0)],
        "rounds": [{"mode": "rounds", "latency_ms": x} for x in (1.0, 10.0, 50.0)],
    },
    idea="events",
    measure=measure,
    better=("agreement", "max"),
    health="safe",
    gone=lambda case: bool(case["fault"] == "none"),
    ablate={"events at any time": {"mode": "rounds", "latency_ms": 50.0}},
    predictions={
        "no two nodes decide otherwise, simulated or over sockets": lambda t: (
            least(t.figure("safe")) - 0.999
        ),
        "events agree with sockets to 10 % without faults": lambda t: (
            least(t.figure("agreement", fault="none")) - 0.9
        ),
        "and with nodes that are away": lambda t: (
            least(t.figure("agreement", fault="crash")) - 0.85
        ),
        "short rounds do as well as events": lambda t: 1.02 - most(t.gains("rounds")),
    },
    decides="timers: messages take microseconds here and timers tenths of a second, so that rounds of a "
    "millisecond are as good as events, and what differs is who loses which message.",
    amended="The programs had been tried in both ways before the predictions were written. After a trial "
    "timers are compared with a picosecond to spare; the recorded runs over sockets are from "
    "before that.",
    cannot_say="Many machines, and networks that lose or reorder datagrams themselves.",
)
