"""Faults: strategies that replace what an actor sends, receives or computes. They compose in order.

A strategy has any of `send`, `receive` and `compute`; what it touches carries its name in the Run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chakrakit.errors import ConfigError
from chakrakit.simulator.live.actors import Actor
from chakrakit.simulator.live.verbs import Message


class Parcel(NamedTuple):
    """A message that is about to be sent."""

    to: int
    size: int
    body: Any
    delay_ns: float = 0.0


class FaultStrategy:
    """Changes nothing; the base of all strategies."""

    name = "fault"

    def send(self, me: Actor, parcel: Parcel) -> Iterable[Parcel]:
        """What is sent instead: nothing, something else, or several."""
        return (parcel,)

    def receive(self, me: Actor, message: Message) -> bool:
        """Whether a message gets through."""
        return True

    def compute(self, me: Actor, ns: float) -> float:
        """How long a computation takes instead."""
        return ns


def _check(fault: FaultStrategy, right: bool, wants: str) -> None:
    if not right:
        raise ConfigError(f"{fault!r}: give {wants}")


@dataclass(frozen=True)
class Crash(FaultStrategy):
    """The actor stops at a time, and begins anew at another where one is given: it leaves and joins."""

    at_ns: float = 0.0
    until_ns: float | None = None
    name = "crash"

    def __post_init__(self) -> None:
        _check(self, self.at_ns >= 0, "from 0 ns on")
        _check(self, self.until_ns is None or self.until_ns > self.at_ns, "until after it began")


@dataclass(frozen=True)
class Silent(FaultStrategy):
    """Says nothing at all, and goes on as if it did."""

    name = "silent"

    def send(self, me: Actor, parcel: Parcel) -> Iterable[Parcel]:
        """Nothing."""
        return ()


@dataclass(frozen=True)
class Drop(FaultStrategy):
    """Loses a share of what it sends."""

    share: float
    name = "drop"

    def __post_init__(self) -> None:
        _check(self, 0 <= self.share <= 1, "a share from 0 to 1")

    def send(self, me: Actor, parcel: Parcel) -> Iterable[Parcel]:
        """The parcel, or nothing."""
        return () if me.random.random() < self.share else (parcel,)


@dataclass(frozen=True)
class Delay(FaultStrategy):
    """Sends later: by so long, or by an exponential time of that mean."""

    ns: float
    exponential: bool = False
    name = "delay"

    def __post_init__(self) -> None:
        _check(self, self.ns > 0 or (self.ns == 0 and not self.exponential), "a time above 0 ns")

    def send(self, me: Actor, parcel: Parcel) -> Iterable[Parcel]:
        """The parcel, later."""
        by = me.random.expovariate(1 / self.ns) if self.exponential else self.ns
        return (parcel._replace(delay_ns=parcel.delay_ns + by),)


@dataclass(frozen=True)
class Equivocate(FaultStrategy):
    """Says something else to some: `forge(to, body)` gives what each receiver gets to see."""

    forge: Callable[[int, Any], Any]
    name = "equivocate"

    def send(self, me: Actor, parcel: Parcel) -> Iterable[Parcel]:
        """The parcel with another body."""
        return (parcel._replace(body=self.forge(parcel.to, parcel.body)),)


@dataclass(frozen=True)
class Slow(FaultStrategy):
    """Computes so many times as long."""

    factor: float
    name = "slow"

    def __post_init__(self) -> None:
        _check(self, self.factor > 0, "a factor above 0")

    def compute(self, me: Actor, ns: float) -> float:
        """Longer."""
        return ns * self.factor


def checked_faults(who: str, faults: Sequence[FaultStrategy]) -> Sequence[FaultStrategy]:
    """The strategies of an actor; an error where they are none."""
    if not isinstance(faults, Sequence):
        raise ConfigError(f"{who}: faults are {faults!r}; give a list of strategies")
    for fault in faults:
        if not isinstance(fault, FaultStrategy):
            raise ConfigError(f"{who}: {fault!r} is not a fault; give one such as live.Drop(0.1)")
    return faults


class Faulty:
    """The faults of one actor as the core asks for them; `labels` collects the names that were used."""

    def __init__(self, me: Actor, strategies: Sequence[FaultStrategy], labels: list[str]) -> None:
        self.me, self.strategies, self.labels = me, strategies, labels

    def send(self, to: int, size: int, body: object) -> list[tuple[int, int, object, int]]:
        """Delay in picoseconds, receiver, body and label of everything that is sent instead."""
        parcels = [(Parcel(to, size, body), -1)]
        for strategy in self.strategies:
            changed: list[tuple[Parcel, int]] = []
            for parcel, label in parcels:
                for sent in strategy.send(self.me, parcel):
                    changed.append((sent, label if sent is parcel else self._label(strategy)))
            parcels = changed
        return [(round(p.delay_ns * 1000), p.to, p.body, label) for p, label in parcels]

    def compute(self, ps: int) -> tuple[int, int]:
        """Picoseconds and label of a computation."""
        ns, label = ps / 1000, -1
        for strategy in self.strategies:
            slower = strategy.compute(self.me, ns)
            label = label if slower == ns else self._label(strategy)
            ns = slower
        return (ps if label < 0 else round(ns * 1000)), label

    def receive(self, message: Message) -> bool:
        """Whether a message gets through all of them."""
        return all(strategy.receive(self.me, message) for strategy in self.strategies)

    def _label(self, strategy: FaultStrategy) -> int:
        if strategy.name not in self.labels:
            self.labels.append(strategy.name)
        return self.labels.index(strategy.name)
