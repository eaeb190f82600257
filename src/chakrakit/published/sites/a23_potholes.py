"""A23, detecting potholes at edge and cloud: what screening on board saves of the uplink.

Vehicles record windows of their accelerometers and send them over one cell. The idea sends those that a
screen on board marks: all events but a few, and some windows without one. Comparators send everything, as
it is or compressed. Nothing is said of what is recognised; this is the side cost of sending.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.simulator import live

VEHICLES, WINDOWS, WINDOW, EVERY_S = 20, 60, 24_000, 1.0
"""Vehicles, windows of each, bytes of a window (three axes at 1 kHz in 8 bytes), and how often one ends."""
MISSED, FALSE = 0.05, 0.03
"""Events that a screen misses, and other windows that it marks. Assumed."""
CELL = {"topology": "switch", "size": VEHICLES + 1, "bandwidth": "10 Mb/s", "latency": "30 ms"}


def _vehicle(me: live.Actor, case: Case, setting: Setting, kept: list[bool]) -> live.Program:
    for _ in range(WINDOWS):
        yield live.sleep(EVERY_S * live.S)
        event = me.random.random() < case["events"]
        marked = me.random.random() < ((1 - MISSED) if event else FALSE)
        sends = marked or not setting["screen"]
        if event:
            kept.append(sends)
        if sends:
            yield live.send("cloud", WINDOW * setting["compressed"])


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Bytes of a window that are sent, on average, and which share of events arrives."""
    kept: list[bool] = []
    world = live.World({"network": [CELL]}, seed=seed)
    for number in range(VEHICLES):
        name = f"vehicle {number}"
        world.actor(_vehicle, case, setting, kept, rank=number, name=name)
    world.actor(_Cloud(), rank=VEHICLES, name="cloud")
    summary = world.run().summary
    return {
        "bytes": summary.message_bytes / (VEHICLES * WINDOWS),
        "events_sent": sum(kept) / len(kept) if kept else 1.0,
        "speed": 1.0 / (summary.end_ns / live.S),
    }


class _Cloud:
    """Takes what comes."""

    def on_message(self, me: live.Actor, message: live.Message) -> None:
        """Nothing to do."""


def cases(quick: bool) -> Sequence[Case]:
    """Which share of windows has an event; where all have one there is nothing to leave out."""
    return [{"events": share} for share in (0.01, 0.1, 0.3, 1.0)]


STUDY = Study(
    id="A23",
    system="Pothole detection at edge and cloud",
    family="sites",
    strength="side cost",
    claims=[
        Claim(
            "a tenth of the bytes where 1 % have an event",
            10,
            10,
            "ours",
            "gain over everything",
            {"events": 0.01},
        ),
        Claim("events are recognised", 1, 1, kind="not simulable"),
    ],
    rests_on={"messages over a cell": "simulator/live/planning.py"},
    cases=cases,
    sides={
        "screened": [{"screen": True, "compressed": 0.5}],
        "compressed": [{"screen": False, "compressed": 0.5}],
        "everything": [{"screen": False, "compressed": 1.0}],
    },
    idea="screened",
    untuned=["everything"],
    measure=measure,
    better=("bytes", "min"),
    health="speed",
    gone=lambda case: bool(case["events"] == 1.0),
    ablate={"the screen": {"screen": False}},
    predictions={
        "over 10 times fewer bytes where 1 % have an event": lambda t: (
            least(t.gains("compressed", events=0.01)) - 10
        ),
        "2 to 4 times fewer where 30 % have one": lambda t: (
            least(t.gains("compressed", events=0.3)) - 2
        ),
        "no more than 6 % fewer where all have one": lambda t: (
            1.06 - most(t.gains("compressed", events=1.0))
        ),
    },
    decides="false alarms: with rare events they are what is sent; the windows that a screen misses are not "
    "sent, which is a loss and not a gain.",
    cannot_say="How well events are recognised, and training across vehicles.",
)
