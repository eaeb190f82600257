"""The programs of a board, a laptop and a PC that share a network's layers, frame by frame."""

from __future__ import annotations

from chakrakit.published import Setting
from chakrakit.published.devices.edge_split import (
    ANSWER,
    FRAME,
    LATENCY_S,
    MEGABITS,
    NETWORKS,
    best_cuts,
)
from chakrakit.simulator import live

FRAMES, EVERY_S = 60, 1.0
"""Frames, and how often one comes; one that comes while another is under way waits."""
PROBE = 50_000
"""Bytes of a probe: long enough to see a bandwidth beside the latency."""


class EdgeChain:
    """The board's program and what the two others answer."""

    def __init__(self, network: str, setting: Setting) -> None:
        self.layers, self.network, self.setting = NETWORKS[network], network, setting
        self.latencies: list[float] = []

    def board(self, me: live.Actor) -> live.Program:
        """A frame after another."""
        every, at = self.setting["every"], self.setting["at"]
        cuts = best_cuts(self.network, (MEGABITS[0] * at, MEGABITS[1] * at))
        cuts = {"board": (len(self.layers),) * 2, "pc": (0, 0)}.get(self.setting["all"], cuts)
        for frame in range(FRAMES):
            yield live.sleep(max(0.0, frame * EVERY_S * live.S - me.now))
            began = me.now
            if every and frame % every == 0:
                yield live.send("laptop", PROBE, ("probe", me.now))
                (answer,) = yield live.receive()
                cuts = best_cuts(self.network, answer.body)
            yield from self.layers_of(0, cuts[0])
            if cuts[0] < len(self.layers):
                yield live.send("laptop", self.size(cuts[0]), ("frame", cuts))
                yield live.receive()
            self.latencies.append((me.now - began) / live.S)

    def layers_of(self, first: int, after: int) -> live.Program:
        """Computes some of the layers, on whatever device the program is."""
        flops = sum(f for f, _ in self.layers[first:after])
        if flops:
            yield live.compute(flops=flops, dtype="fp32")

    def size(self, cut: int) -> float:
        """Bytes that cross there."""
        return self.layers[cut - 1][1] if cut else FRAME

    def laptop(self, me: live.Actor) -> live.Program:
        """Its part of a frame, or a probe that it passes on."""
        while True:
            (message,) = yield live.receive()
            if message.body[0] == "probe":
                first = _megabits(message, LATENCY_S[0])
                yield live.send("pc", PROBE, ("probe", first))
                continue
            a, b = message.body[1]
            yield from self.layers_of(a, b)
            if b < len(self.layers):
                yield live.send("pc", self.size(b), ("frame", (b,)))
            else:
                yield live.send("board", ANSWER)

    def pc(self, me: live.Actor) -> live.Program:
        """The rest."""
        while True:
            (message,) = yield live.receive()
            kind, value = message.body
            if kind == "probe":
                yield live.send("board", 100, (value, _megabits(message, LATENCY_S[1])))
            else:
                yield from self.layers_of(value[0], len(self.layers))
                yield live.send("board", ANSWER)


def _megabits(message: live.Message, latency_s: float) -> float:
    """What a message tells of the link it came over."""
    seconds = (message.arrived_ns - message.sent_ns) / live.S - latency_s
    return message.size * 8e-6 / max(1e-6, seconds)
