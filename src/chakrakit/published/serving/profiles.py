"""Profiles that compress a cache which moves, and who chooses among them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from chakrakit.serving import Codec, EngineView, LinkView, RequestView, ServingSession

PROFILES = (
    Codec("none"),
    Codec("fp8", 2.0, 400.0, 400.0),
    Codec("int4", 4.0, 150.0, 150.0),
    Codec("int2 and entropy", 10.0, 20.0, 20.0),
)
"""Ratio and GB/s: casts run at a share of a device's memory bandwidth, entropy coding an order below it."""


class FixedProfile:
    """One profile, whatever the link."""

    def __init__(
        self, engines: ServingSession, profile: int, schedule: Sequence[tuple[float, float]]
    ) -> None:
        setup = engines.setup
        self.wire, self.terms = setup.handover_seconds_per_token, setup.links.codecs
        self.pieces, self.profile, self.schedule = setup.links.pieces, profile, schedule

    def codec(
        self, request: RequestView, source: EngineView, target: EngineView, link: LinkView
    ) -> int:
        """The number of the profile."""
        return self.profile

    def seconds(self, number: int, tokens: int, factor: float) -> float:
        """The time of a move at a bandwidth that stays."""
        terms = self.terms[number]
        parts = (
            tokens * terms.encode_seconds_per_token,
            tokens * self.wire / terms.ratio / factor,
            tokens * terms.decode_seconds_per_token,
        )
        return max(parts) + (sum(parts) - max(parts)) / self.pieces


class ByBandwidth(FixedProfile):
    """The profile that is fastest at the bandwidth of now."""

    def codec(
        self, request: RequestView, source: EngineView, target: EngineView, link: LinkView
    ) -> int:
        """The number of the profile."""
        return self.fastest(request.computed, link.factor)

    def fastest(self, tokens: int, factor: float) -> int:
        """The profile with the shortest move."""
        return min(range(len(PROFILES)), key=lambda i: self.seconds(i, tokens, factor))


class ByFuture(ByBandwidth):
    """The profile that is fastest at the bandwidth of the time at which the move will start."""

    def codec(
        self, request: RequestView, source: EngineView, target: EngineView, link: LinkView
    ) -> int:
        """The number of the profile."""
        start = source.now_s + link.wait_s
        place = bisect_right([at for at, _ in self.schedule], start) - 1
        return self.fastest(request.computed, self.schedule[place][1] if place >= 0 else 1.0)
