"""Clusters at the edge that run functions of workflows, and send data to each other.

A function runs at a node of some cluster, and its input crosses the network if that is another one than its
data's.
"""

from __future__ import annotations

import random

from chakrakit.published import Case, Setting
from chakrakit.published.workflows.model_calls import ModelCall
from chakrakit.simulator import live

WIDTHS = (16, 12, 12, 8, 8, 8)
"""Nodes of the clusters: 64."""
INPUT = 10e6
"""Bytes from one function to the next: a picture or a short clip."""
SECONDS = 0.004
"""Seconds of a function for each unit of its work, 0.2 to 1.6 s."""


class Federation:
    """Clusters with what is on its way to each, and how a function is placed."""

    def __init__(self, world: live.World, case: Case, setting: Setting, seed: int) -> None:
        self.setting, self.count = setting, case["clusters"]
        self.pools = [
            world.pool(f"cluster {c}", WIDTHS[c], discipline="deadline") for c in range(self.count)
        ]
        self.backlog = [0.0] * self.count
        self.random = random.Random(f"placing {seed}")
        self.lateness: list[float] = []
        self.took: list[float] = []

    def finish(self, cluster: int, home: int, seconds: float) -> float:
        """Seconds until a function would end there, by what is known of the line."""
        moving: float = 0.0 if cluster == home else 0.04 + INPUT / 125e6
        trust: float = self.setting["trust"]
        return self.backlog[cluster] / WIDTHS[cluster] + moving * trust + seconds

    def place(self, home: int, seconds: float, slack: float) -> int:
        """The cluster for a function whose data is at `home`; `slack` seconds are left until it must end."""
        how, every = self.setting["how"], range(self.count)
        if how == "draw":
            away = self.random.random() < self.setting["trust"]
            return self.random.choice(every) if away else home
        if how == "home" or (
            how == "deadline" and self.finish(home, home, seconds) <= slack * self.setting["trust"]
        ):
            return home
        return min(every, key=lambda c: (self.finish(c, home, seconds), c != home))


def run_workflow(
    me: live.Actor, calls: list[ModelCall], fed: Federation, at: int, slack: float
) -> live.Program:
    """A workflow that arrives at cluster `at` and must end in `slack` times its critical path."""
    where: dict[int, int] = {}
    ended: set[int] = set()
    began = me.now / live.S
    deadline = began + slack * max(c.path for c in calls) * SECONDS

    def function(call: ModelCall) -> live.Program:
        home = where[call.reads[0]] if call.reads else at
        seconds, rest = call.output * SECONDS, call.path * SECONDS
        left = deadline - me.now / live.S - (rest - seconds)
        cluster = where[call.number] = fed.place(home, seconds, left)
        fed.backlog[cluster] += seconds
        if cluster != home:
            yield live.send(f"door {home}", 1000, ("move", cluster, (me.number, call.number)))
            yield live.receive(lambda m: m.body == (me.number, call.number))
        yield live.use(fed.pools[cluster], seconds * live.S, deadline=deadline)
        fed.backlog[cluster] -= seconds
        yield live.send(me, 0, call.number)

    begun: set[int] = set()
    while len(ended) < len(calls):
        for call in calls:
            if call.number not in begun and ended.issuperset(call.reads):
                begun.add(call.number)
                yield live.spawn(function(call))
        (message,) = yield live.receive(lambda m: isinstance(m.body, int))
        ended.add(message.body)
    fed.took.append(me.now / live.S - began)
    fed.lateness.append(me.now / live.S - deadline)


class Door:
    """A cluster's gateway: sends data to other clusters, and hands over what arrives."""

    def on_message(self, me: live.Actor, message: live.Message) -> live.Program:
        """A wish to move data, or data."""
        what, *rest = message.body
        if what == "move":
            cluster, key = rest
            yield live.send(f"door {cluster}", INPUT, ("data", key))
        else:
            yield live.send(rest[0][0], 0, rest[0])
