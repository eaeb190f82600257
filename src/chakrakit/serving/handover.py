"""Moving a prompt's keys and values from a prefill engine to a decode engine."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.machines.fabric import Machine
from chakrakit.serving.steps import times_on


class Handover(msgspec.Struct, frozen=True):
    """Seconds for each token and once for each move, with nothing else on the links."""

    seconds_per_token: float = 0.0
    latency: float = 0.0

    @classmethod
    def between(
        cls, machine: Machine, bytes_per_token: float, target: int, tokens: tuple[int, int]
    ) -> Handover:
        """The line through the simulator's times of the shortest and the longest prompt.

        `bytes_per_token` is what one rank sends to another; ranks of an engine send side by side, all as
        the first one does.
        """
        place = target % machine.size
        source = 0 if place else min(1, machine.size - 1)
        short, long = tokens if tokens[0] < tokens[1] else (max(1, tokens[0] // 2), tokens[1] + 1)
        sizes = np.array([short, long]) * bytes_per_token
        low, high = times_on(machine).message_seconds(sizes, source, place).tolist()
        each = (high - low) / (long - short)
        return cls(each, max(0.0, low - each * short))
