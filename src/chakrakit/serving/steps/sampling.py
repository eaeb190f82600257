"""What it takes to draw tokens by top-k and top-p from sorted logits, as vLLM does without FlashInfer.

Greedy decoding takes the largest logit, which is part of an engine's own time. Drawing from the likeliest
tokens (vLLM's `apply_top_k_top_p`) sorts the logits of every request over the whole vocabulary, as 32-bit
numbers, and goes over them a dozen times. The sort and the running sums take what the device's profile says.
vLLM's authors state 1.07 and 2.40 ms for the filter alone, for 64 and 128 requests and 131,072 tokens
(their pull request 40376, device not said); with temperature and draw an H100 gets 1.08 and 1.91 here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines.device import Device, Profiled, packaged_profile
from chakrakit.operators import Operation

WIDTH = 4
"""Bytes of a logit."""
SORT_BYTES = 4 * 2 * (WIDTH + 8)
"""Of a logit in a radix sort: four passes over keys and indices of eight bytes, which read and write both."""
SUM_BYTES = 2 * WIDTH
STREAMED_BYTES = 92
"""Of a logit in all other kernels: made 32 bits wide (6), divided by the temperature (8), compared and masked
for top-k and for top-p (2 × 13), softmax before and after (2 × 8), put back in order by indices (16), divided
by random numbers (4 + 12) and looked through for the largest (4)."""


@dataclass(frozen=True, eq=False)
class SortedSampling:
    """Drawing tokens from a vocabulary on a device."""

    vocab: int
    device: Device

    def seconds(self, sampled: F64) -> F64:
        """Seconds of all kernels, by the number of requests that get a token."""
        return np.array([self._all(n) if n > 0 else 0.0 for n in sampled.tolist()], np.float64)

    def moved(self, sampled: float) -> float:
        """Bytes that all kernels touch."""
        return (SORT_BYTES + SUM_BYTES + STREAMED_BYTES) * self.vocab * sampled

    def _all(self, requests: float) -> float:
        streamed = STREAMED_BYTES * self.vocab * requests / self.device.memory_bandwidth
        return streamed + sum(
            self._along_rows(table, moved, requests)
            for table, moved in (("sort", SORT_BYTES), ("cumsum", SUM_BYTES))
        )

    def _along_rows(self, table: str, moved: int, requests: float) -> float:
        """Seconds of a kernel that profiles know by rows and their length; else those of its bytes."""
        logits, rows = self.vocab * requests, max(1, round(requests))
        operation = Operation(
            "elementwise", (rows, self.vocab, WIDTH), 0.0, 2.0 * WIDTH * logits, table
        )
        prediction = self._profile.predict(operation) if self._profile is not None else None
        if self._profile is None or prediction is None:
            return moved * logits / self.device.memory_bandwidth
        return self._profile.carried(prediction, operation, self.device).us * 1e-6

    @cached_property
    def _profile(self) -> Profiled | None:
        return packaged_profile(self.device.profile) if self.device.profile else None
