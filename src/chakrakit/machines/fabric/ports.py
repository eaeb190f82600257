"""Ports: what a message costs where it leaves, whatever its bytes, in the manner of LogGP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64


@dataclass(frozen=True)
class MessageCost:
    """Seconds and counts of one message at a port; nothing costs anything where nothing is said.

    LogGP's o, g and G: a message is under way `overhead` later, and holds its port for `gap` on top of its
    bytes over the bandwidth. One of more than `size` bytes is several. A sender that talks to more peers
    at once than its port keeps `queue_pairs` for pays `queue_pair_gap` for each message whose queue pair
    has to be fetched, which with p peers is the share 1 - queue_pairs / p of them.
    """

    overhead: float = 0.0
    gap: float = 0.0
    size: float = 0.0
    """Bytes; 0 for no limit."""
    queue_pairs: int = 0
    """0 for no limit."""
    queue_pair_gap: float = 0.0

    def messages(self, payload: F64) -> I64:
        """How many messages carry each of these amounts; nothing at all is one, as in a barrier."""
        if not self.size:
            return np.ones(np.shape(payload), np.int64)
        return np.maximum(np.ceil(payload / self.size), 1).astype(np.int64)

    def gaps(self, peers: I64) -> F64:
        """Seconds a message holds its port, of a sender with so many peers at once."""
        if not self.queue_pairs:
            return np.full(np.shape(peers), self.gap)
        missing = np.maximum(0.0, 1 - self.queue_pairs / np.maximum(peers, 1))
        return self.gap + self.queue_pair_gap * missing
