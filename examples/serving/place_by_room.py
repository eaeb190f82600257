"""Placing: a prefilled request goes to the decode engine with the fewest tokens, held and on their way.

Run it: it prints how evenly the cache of the decode engines is used, and the time per output token, with
decode engines in turn and with this rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serve

STREAM = "poisson{rate=30,n=240,prompt=lognormal:1500:1.5,output=lognormal:150:1.5,seed=7}"


class PlaceByRoom:
    """Where the fewest tokens are, and are about to be: caches that still move have no blocks yet."""

    def place(self, request: RequestView, engines: Sequence[EngineView]) -> int:
        """The number of the decode engine."""
        return min(engines, key=lambda e: e.tokens_held + e.tokens_promised).number


def main() -> None:
    """The fullest decode engine and the time per token, either way."""
    for name, policy in (("in turn", None), ("by room", PlaceByRoom())):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, "vllm", prefill=2, decode=4, policy=policy)
        peak = next(p.kv.peak_tokens for p in done.pools if p.role == "decode")
        print(f"{name}: {peak:,} tokens on the fullest, {done.tpot_ms.p99:.2f} ms per token at p99")


if __name__ == "__main__":
    main()
