"""The links that caches move over between engines: bandwidth over time, and ways to send a cache smaller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chakrakit.errors import ConfigError
from chakrakit.machines import ChangeOverTime, read_schedule
from chakrakit.machines.fabric import Schedule

_LEAST_GBPS = 1e-6


@dataclass(frozen=True)
class Codec:
    """A way to encode a cache: `ratio` times smaller, at these rates of the cache as it was, in GB/s."""

    name: str
    ratio: float = 1.0
    encode_gbps: float = float("inf")
    decode_gbps: float = float("inf")

    def __post_init__(self) -> None:
        if not (self.ratio > 0 and self.encode_gbps > 0 and self.decode_gbps > 0):
            raise ConfigError(f"codec {self.name}: give a ratio and rates above 0")
        if min(self.encode_gbps, self.decode_gbps) < _LEAST_GBPS:
            raise ConfigError(f"codec {self.name}: give rates of {_LEAST_GBPS:g} GB/s or more")

    def terms(self, bytes_per_token: float) -> CodecTerms:
        """What it costs for each token of a cache."""
        return CodecTerms(
            self.ratio,
            bytes_per_token / (self.encode_gbps * 1e9),
            bytes_per_token / (self.decode_gbps * 1e9),
        )


@dataclass(frozen=True)
class CodecTerms:
    """A codec in the simulator's own terms."""

    ratio: float = 1.0
    encode_seconds_per_token: float = 0.0
    decode_seconds_per_token: float = 0.0


@dataclass(frozen=True)
class MoveLinks:
    """How moves of caches go: bandwidth over time, codecs to choose from, pieces that follow each other.

    A move is encoded, sent and decoded in `pieces` equal pieces, each as soon as the one before is through:
    it takes the longest of the three, and of the other two what one piece takes. Without a policy the first
    codec is used.
    """

    schedule: Schedule = ()
    codecs: Sequence[CodecTerms] = ()
    pieces: int = 1
    store_schedule: Schedule = ()
    """The same for the store of cached content that engines share."""

    @classmethod
    def of(
        cls,
        codecs: Sequence[Codec],
        bytes_per_token: float,
        pieces: int,
        schedule: Sequence[tuple[float, float]] = (),
        store_schedule: Sequence[tuple[float, float]] = (),
    ) -> MoveLinks:
        """From codecs, and from (seconds, factor) of each change of a bandwidth."""
        names = [codec.name for codec in codecs]
        if twice := next((n for n in names if names.count(n) > 1), None):
            raise ConfigError(f"two codecs are called {twice}; give each a name of its own")
        return cls(
            _changes(schedule, "link_schedule"),
            [codec.terms(bytes_per_token) for codec in codecs],
            pieces,
            _changes(store_schedule, "store_schedule"),
        )

    def __post_init__(self) -> None:
        for changes in (self.schedule, self.store_schedule):
            if changes and changes[-1].factor == 0:
                raise ConfigError(
                    f"a schedule leaves no bandwidth from {changes[-1].at:g} s on; let it end above 0"
                )


def _changes(pairs: Sequence[tuple[float, float]], where: str) -> Schedule:
    """Pairs of seconds and factor as the changes of links in a machine's file."""
    return read_schedule([ChangeOverTime(at=at, factor=factor) for at, factor in pairs], where)
