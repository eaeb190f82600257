"""Scaling with a start-up time: of unlike engines the cheaper ones are switched on first.

Run it: it prints the first token and the price, with all engines and with as many as needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineSpec, EngineView, serve

CHEAP = EngineSpec(model="llama-3.1-8b", machine="l40s-pcie", count=2)
FAST = EngineSpec(model="llama-3.1-8b", machine="dgx-h100", count=2)
STREAM = "regimes{rates=2:24:2,every=20,n=560,prompt=700,output=60,seed=5}"


class StartCheapest:
    """One engine for every twelve requests under way, in the order of the specs."""

    interval_s, start_up_s = 1.0, 4.0

    def scale(self, engines: Sequence[EngineView], now_s: float) -> set[int]:
        """The engines that take new requests."""
        load = sum(e.waiting + e.running for e in engines)
        return set(range(min(len(engines), 1 + load // 12)))


def main() -> None:
    """Either way."""
    for name, policy in (("always all", None), ("as needed", StartCheapest())):
        done = serve(engines=[CHEAP, FAST], requests=STREAM, router="least", policy=policy)
        print(f"{name}: first token {done.ttft_ms.p90:.0f} ms at p90, {done.price * 100:.1f} cents")


if __name__ == "__main__":
    main()
