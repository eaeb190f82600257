"""Devices that keep a model and prefixes, and policies that pick which call runs where.

A call takes what a model of 8 billion parameters needs on an H100: weights from a drive of 7 GB/s (PCIe 4.0
with four lanes), 2 FLOPs per parameter and token of the prompt, and a read of the weights for each token of
the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chakrakit.machines import load_machine
from chakrakit.published.workflows.model_calls import ModelCall
from chakrakit.simulator import live

_PARAMETERS, _DRIVE, _SHARED = 8e9, 7e9, 0.7
"""Of a model; bytes per second from a drive; the share of a prompt that calls of one kind have in common."""
_H100 = load_machine("dgx-h100").device(0)
_LOAD = 2 * _PARAMETERS / _DRIVE
_PREFILL = (
    2 * _PARAMETERS / (_H100.peak["bf16"] * _H100.achieved.get("bf16", _H100.compute_efficiency))
)
_DECODE = 2 * _PARAMETERS / _H100.memory_bandwidth


class ResidentPolicy:
    """A policy that picks by the lowest score; `kind` says of what, `keep` how much the future counts."""

    def __init__(self, kind: str, keep: float, pending: list[ModelCall], pool_size: int) -> None:
        self.kind, self.keep, self.pending, self.size = kind, keep, pending, pool_size
        self.turn = 0
        self.models: dict[int, int] = {}

    def seconds(self, call: ModelCall, place: live.Place) -> float:
        """What the call takes on this device as it is now."""
        loaded = self.models.get(place.number) == call.model
        cached = loaded and call.prefix in place.state.get("prefixes", ())
        prompt = call.prompt * (1 - _SHARED if cached else 1)
        return (0 if loaded else _LOAD) + prompt * _PREFILL + call.output * _DECODE

    def run(self, call: ModelCall, place: live.Place) -> float:
        """Nanoseconds of the call, which changes the device."""
        took = self.seconds(call, place)
        if self.models.get(place.number) != call.model:
            place.state["prefixes"] = set()
        self.models[place.number] = call.model
        place.state["prefixes"].add(call.prefix)
        self.pending.remove(call)
        return took * live.S

    def pick(self, tasks: Sequence[live.Task], places: Sequence[live.Place], now_ns: float) -> Any:
        """A call and a device."""
        self.turn += 1
        if self.kind == "round robin":
            return tasks[0], places[self.turn % len(places)]
        if self.kind == "longest path":
            task = max(tasks, key=lambda t: t.about.path)
            return task, min(places, key=lambda p: self.seconds(task.about, p))
        pairs = [(t, p) for t in tasks for p in places]
        return min(pairs, key=lambda pair: self.score(pair[0].about, pair[1]))

    def score(self, call: ModelCall, place: live.Place) -> float:
        """The call's own time, less or more what it leaves behind."""
        own = self.seconds(call, place)
        if self.kind == "prefix":
            return own - _LOAD * (call.prefix in place.state.get("prefixes", ()))
        resident = self.models.get(place.number)
        if resident == call.model:
            return own
        lost = 0.0 if resident is None else self.worth(resident, 0)
        return own + self.keep * (lost - self.worth(call.model, 1))

    def worth(self, model: int, more: int) -> float:
        """Seconds of loading that a device with this model saves the calls still to come.

        They share it with all devices that hold the model, and with `more` that would.
        """
        wanted = sum(call.model == model for call in self.pending)
        copies = list(self.models.values()).count(model) + more
        return _LOAD * min(1.0, wanted / (copies * self.size))


def run_workflow(
    me: live.Actor, calls: list[ModelCall], pool: live.Pool, s: ResidentPolicy
) -> live.Program:
    """Level by level: a call starts when those it reads have ended."""
    ended: set[int] = set()
    begun: set[int] = set()

    def finish(call: ModelCall) -> live.Program:
        yield live.use(pool, lambda place: s.run(call, place), about=call)
        yield live.send(me, 0, call.number)

    while len(ended) < len(calls):
        for call in calls:
            if call.number not in begun and ended.issuperset(call.reads):
                begun.add(call.number)
                yield live.spawn(finish(call))
        (message,) = yield live.receive()
        ended.add(message.body)
    return me.now / live.S
