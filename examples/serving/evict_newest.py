"""Eviction: of blocks nobody holds, the one that was used last is reused, not the one used first.

When prompts come round in a cycle that is a little larger than the cache, the least recently used block is
always the one that is needed next: nothing is found. Run it: it prints cache hits either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, serve
from chakrakit.serving.requests import stream_of

PROMPTS, TIMES = 12, 10
BLOCKS = [[100 * p + b for b in range(64)] for p in range(PROMPTS)] * TIMES
STREAM = stream_of(range(len(BLOCKS)), [1040] * len(BLOCKS), [2] * len(BLOCKS), ids=BLOCKS)
"""Twelve prompts of 64 blocks, one every second, again and again; the cache has room for nine."""
ENGINE = "vllm{num_gpu_blocks_override=600}"


class EvictNewest:
    """Keeps what has been there longest."""

    def evict(self, blocks: Sequence[int], engine: EngineView) -> int:
        """The block to reuse; they come in the order of their last use."""
        return blocks[-1]


def main() -> None:
    """Share of prompt tokens that were cached."""
    for name, policy in (("least recently used", None), ("newest first", EvictNewest())):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, ENGINE, policy=policy)
        print(f"{name}: {done.cache_hit_rate:.0%} of prompt tokens cached")


if __name__ == "__main__":
    main()
