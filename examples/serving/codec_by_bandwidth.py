"""Codecs: a cache that moves from a prefill to a decode engine is encoded when the link is slow.

Run it: the link has a hundredth of its bandwidth for a while; it prints the time of a request with each way
to send a cache, and with the choice.
"""

from __future__ import annotations

from chakrakit.serving import Codec, EngineView, LinkView, RequestView, serve

CODECS = (Codec("none"), Codec("int4", 4.0, 150.0, 150.0), Codec("int2", 10.0, 20.0, 20.0))
SCHEDULE = [(5.0, 0.01), (15.0, 1.0)]
"""(second, factor of the bandwidth from then on)"""
STREAM = "poisson{rate=6,n=120,prompt=lognormal:3000:0.5,output=32,seed=1}"


class CodecByBandwidth:
    """The most there is where the link is slow, nothing where it is fast."""

    def codec(
        self, request: RequestView, source: EngineView, target: EngineView, link: LinkView
    ) -> int:
        """The number of the codec."""
        return 2 if link.factor < 0.1 else 0


class Always(CodecByBandwidth):
    """One codec."""

    def __init__(self, number: int) -> None:
        self.codec = lambda *_: number  # type: ignore[method-assign]


def main() -> None:
    """Each alone, then the choice."""
    alone = {codec.name: Always(i) for i, codec in enumerate(CODECS)}
    for name, policy in {**alone, "by bandwidth": CodecByBandwidth()}.items():
        done = serve(
            *("llama-3.1-8b", "dgx-h100", STREAM),
            **{"prefill": 2, "decode": 2, "codecs": CODECS, "link_schedule": SCHEDULE},
            policy=policy,
        )
        print(f"{name}: {done.e2e_ms.mean:.0f} ms")


if __name__ == "__main__":
    main()
