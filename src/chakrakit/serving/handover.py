"""Moving a prompt's keys and values from a prefill engine to a decode engine."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.machines.fabric import Machine


class Handover(msgspec.Struct, frozen=True):
    """Seconds for each token and once for each move, with nothing else on the links."""

    seconds_per_token: float = 0.0
    latency: float = 0.0

    @classmethod
    def between(
        cls, machine: Machine, bytes_per_token: int, tps: tuple[int, int], first_decode: int
    ) -> Handover:
        """Ranks send side by side, as many as the smaller engine has."""
        target = first_decode % machine.size
        source = 0 if target else min(1, machine.size - 1)
        if source == target:
            return cls()
        routes = machine.routes(np.array([source]), np.array([target]))
        links = machine.links
        lanes = min(tps)
        return cls(
            bytes_per_token / lanes / float(routes.bandwidth(links)[0]),
            float(routes.latency(links)[0]),
        )
