"""Shortest prompt first: new requests start in order of their length, not of their arrival.

Run it: it serves one bursty stream with vLLM's order and with this one, and prints both.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serve

STREAM = "bursts{rate=12,size=24,n=240,prompt=lognormal:2000:1.2,output=64,seed=3}"


class ShortestFirst:
    """Decodes first, as usual; then waiting prompts, the shortest first."""

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """Requests and the most tokens of each, in the order to be tried."""
        ordered = [*running, *sorted(waiting, key=lambda r: (r.prompt, r.number))]
        return [(r.number, r.prompt + r.output) for r in ordered]


def main() -> None:
    """Mean and tail of the time to the first token, either way."""
    for name, policy in (("in order of arrival", None), ("shortest first", ShortestFirst())):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, "vllm", policy=policy)
        print(f"{name}: {done.ttft_ms.mean:.0f} ms on average, {done.ttft_ms.p99:.0f} ms at p99")


if __name__ == "__main__":
    main()
