"""Three ways to feed training: loaders beside the trainers, a broker, and an object store without one.

Producers prepare batches, and trainers fetch their part of each some steps ahead, through a broker's link or
from the store's servers. Loaders beside the trainers use the trainers' own cores, which slows these down.
A crash makes all trainers begin again at the last step; what they had fetched is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chakrakit.published import Case, Setting
from chakrakit.simulator import live

TRAINERS, SERVERS, PRODUCERS, STEPS = 8, 2, 8, 24
PREPARE_S = 1.2
"""Seconds of a core for one trainer's part of a batch. Assumed."""
STOLEN = 0.04
"""How much longer a trainer's step takes for each core that loads beside it. Assumed."""
RESTART_S, WARM_S = 5.0, 5.0
"""Until trainers are back after a crash, and until loaders beside them give their first batch. Assumed."""


@dataclass
class DataPlane:
    """Steps that are ready, and what each trainer waited."""

    case: Case
    setting: Setting
    stalled: float = 0.0
    consumed: list[int] = field(default_factory=list)
    group: live.ActorGroup | None = None
    """The trainers, who end each step together."""

    @property
    def size(self) -> float:
        """Bytes of one trainer's part of a batch."""
        return float(self.case["megabytes"] * 1e6)

    def producer(self, me: live.Actor, number: int) -> live.Program:
        """Prepares every eighth batch for all trainers and gives it to the plane."""
        cores = self.setting["cores"]
        for step in range(number, STEPS, PRODUCERS):
            yield live.sleep(PREPARE_S * TRAINERS / cores * live.S)
            if self.setting["plane"] == "store":
                yield live.store("lake", self.size * TRAINERS)
                yield live.store("lake", 1000)  # the manifest: from here on all see the batch
            else:
                broker = f"broker {step % SERVERS}"
                yield live.send(broker, self.size * TRAINERS, ("batch", step), wait=True)
            for trainer in range(TRAINERS):
                yield live.send(f"loader {trainer}", 0, ("ready", step))

    def broker(self, me: live.Actor) -> live.Program:
        """Keeps batches and sends each trainer its part."""
        while True:
            (message,) = yield live.receive()
            if message.body[0] == "want":
                _, step, who = message.body
                yield live.send(who, self.size, ("part", step))

    def loader(self, me: live.Actor, number: int) -> live.Program:
        """Fetches a trainer's parts in order, some steps ahead of it."""
        ready: set[int] = set()
        for step in range(STEPS):
            while step >= len(self.consumed) // TRAINERS + self.setting["ahead"]:
                yield live.receive(lambda m: m.body[0] == "done")
            while step not in ready and self.setting["plane"] != "beside":
                (message,) = yield live.receive(lambda m: m.body[0] == "ready")
                ready.add(message.body[1])
            yield from self._fetch(me, step)
            yield live.send(f"trainer {number}", 0, ("have", step))

    def _fetch(self, me: live.Actor, step: int) -> live.Program:
        plane = self.setting["plane"]
        if plane == "beside":
            yield live.load("lake", self.size)
            yield live.sleep(PREPARE_S / self.setting["cores"] * live.S)
        elif plane == "store":
            yield live.load("lake", self.size)
        else:
            yield live.send(f"broker {step % SERVERS}", 100, ("want", step, me.name))
            yield live.receive(lambda m: m.body[0] == "part")

    def trainer(self, me: live.Actor, number: int) -> live.Program:
        """Step after step; all begin again once where there is a crash."""
        assert self.group is not None
        beside = self.setting["plane"] == "beside"
        slower = 1 + STOLEN * self.setting["cores"] * beside
        for step in range(STEPS):
            if step == STEPS // 2 and self.case["crash"]:
                yield live.sleep((RESTART_S + WARM_S * beside) * live.S)
            began = me.now
            yield live.receive(_says(("have", step)))
            self.stalled += (me.now - began) / live.S / TRAINERS
            yield live.compute(self.case["step_s"] * slower * live.S)
            yield live.collective("all-reduce", 1e6, self.group)
            self.consumed.append(step)
            yield live.send(f"loader {number}", 0, ("done", step))


def _says(body: object) -> Callable[[live.Message], bool]:
    """Whether a message has this body."""
    return lambda message: bool(message.body == body)
