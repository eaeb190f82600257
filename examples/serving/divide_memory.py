"""Two caches in an engine's memory: the border between pages and content moves to where misses are near.

Run it: agents rewrite what stands at the front of their prompts, so that content behind it is found and
prefixes are not; it prints the prompt tokens found with a border that stays, and with one that moves.
"""

from __future__ import annotations

from chakrakit.serving import EngineView, MemoryView, serve

STREAM = "agents{rate=0.4,n=400,turns=8,think=5,prefix=2000,prefixes=20,edits=0.6,front=0.7,seed=1}"
ENGINE = "vllm{num_gpu_blocks_override=4000,content_gib=0.5}"


class ByNearMisses:
    """A twentieth of the memory goes to the cache that would have had more with a little more of it."""

    divide_every = 10
    eager = True

    def __init__(self) -> None:
        self.share = 0.0

    def divide(self, engine: EngineView, memory: MemoryView) -> float | None:
        """The share of content, or None to leave the border where it is."""
        self.share = memory.share
        content, pages = memory.content.near_misses, memory.pages.near_misses
        if content == pages:
            return None
        return min(0.9, max(0.05, memory.share + (0.05 if content > pages else -0.05)))


def main() -> None:
    """Both ways."""
    moving = ByNearMisses()
    for name, policy in (("stays", None), ("moves", moving)):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, ENGINE, policy=policy)
        print(
            f"{name}: {done.cache_hit_rate:.1%} found, {done.ttft_ms.mean:.0f} ms to the first token"
        )
    print(f"content has {moving.share:.0%} in the end")


if __name__ == "__main__":
    main()
