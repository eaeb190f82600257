"""A rank of an expert-parallel engine that fails alone: how long the others pause, and why."""

from __future__ import annotations

from dataclasses import dataclass

from chakrakit.errors import ConfigError
from chakrakit.machines.device import MOST_SECONDS


@dataclass(frozen=True)
class RankPause:
    """A failure in the simulator's own terms, in seconds.

    The engine of this number is one of several that step together. The others lose the step they are in,
    pause, and go on without it; `away_s` later (0: never) it is back, after a pause of `back_pause_s`.
    """

    at_s: float
    engine: int
    pause_s: float
    away_s: float = 0.0
    back_pause_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RankFailure:
    """A rank of an expert-parallel engine fails; its experts come from the nearest tier that has them.

    The pause is the time to notice, the lost experts' bytes over the bandwidth of the tier, and the time to
    agree on who is left; when the rank is back, its experts come to it in the same way.
    """

    at_s: float
    rank: int
    """Its number among the ranks of all engines, which are counted in order."""
    tier_gbps: float
    """Bandwidth from where the experts are: another rank's memory, a host's, or a disk."""
    detect_s: float = 0.0
    rebuild_s: float = 0.0
    away_s: float = 0.0
    """After this time the rank is back; 0 for never."""

    def __post_init__(self) -> None:
        times = (self.at_s, self.detect_s, self.rebuild_s, self.away_s)
        if not (self.tier_gbps > 0 and all(0 <= time < MOST_SECONDS for time in times)):
            raise ConfigError(
                f"rank {self.rank} fails at {self.at_s:g} s: give a bandwidth above 0, and times from 0 s to "
                f"{MOST_SECONDS:,.0f} s"
            )

    def pause(self, lost_bytes: float) -> RankPause:
        """In the simulator's own terms."""
        refill = lost_bytes / (self.tier_gbps * 1e9)
        return RankPause(
            self.at_s,
            self.rank,
            self.detect_s + refill + self.rebuild_s,
            self.away_s,
            refill + self.rebuild_s,
        )
