"""Codecs by entry: each block that goes to the shared store is encoded as the request that made it says.

Run it: long texts and short ones share a small store; it prints the time to the first token with each
way to keep a block, and with the choice.
"""

from __future__ import annotations

from chakrakit.serving import Codec, EngineView, LinkView, RequestView, serve
from chakrakit.serving.requests import stream_of

CODECS = (Codec("none"), Codec("int4", 4.0, 150.0, 5.0))
ENGINE = "vllm{num_gpu_blocks_override=900,remote_gib=6,remote_gbps=20}"
TEXTS = [(512, 40)] * 10 + [(20, 10)] * 30
"""(blocks of a text, of the question behind it)"""
IDS = [
    [1000 * t + b for b in range(TEXTS[t][0])] + [10**6 + 1000 * n + b for b in range(TEXTS[t][1])]
    for n, t in enumerate([t for _ in range(5) for t in range(len(TEXTS))])
]
STREAM = stream_of(
    [0.5 * n for n in range(len(IDS))], [16 * len(i) for i in IDS], [8] * len(IDS), ids=IDS
)


class CodecByLength:
    """Long texts are kept small, for the room; short ones as they are, for the time to decode."""

    def store_codec(self, request: RequestView, engine: EngineView, link: LinkView) -> int:
        """The number of the codec."""
        return 1 if request.prompt > 4000 else 0


class Always(CodecByLength):
    """One codec."""

    def __init__(self, number: int) -> None:
        self.store_codec = lambda *_: number  # type: ignore[method-assign]


def main() -> None:
    """Each alone, then the choice."""
    for name, policy in (("none", Always(0)), ("int4", Always(1)), ("choice", CodecByLength())):
        done = serve("llama-3.1-8b", "dgx-a100", STREAM, ENGINE, codecs=CODECS, policy=policy)
        print(f"{name}: {done.ttft_ms.mean:.1f} ms, {done.cache_hit_rate:.0%} cached")


if __name__ == "__main__":
    main()
