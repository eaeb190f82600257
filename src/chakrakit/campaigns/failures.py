"""Failure processes: what fails, how often, what it takes with it; and their events in one history.

Times of events are *operating* seconds: they stand still while the job waits for nodes, because idle
nodes do not fail.
"""

from __future__ import annotations

import heapq
import math
from random import Random
from typing import Literal, Protocol

import msgspec

# --- random lengths of time ---------------------------------------------------------------------


class Duration(Protocol):
    """A random length of time in seconds."""

    @property
    def mean(self) -> float:
        """The expected length."""

    def draw(self, chance: Random) -> float:
        """One length."""


class Fixed(msgspec.Struct, frozen=True):
    """Always the same."""

    mean: float

    def draw(self, chance: Random) -> float:
        """The length itself."""
        return self.mean


class Exponential(msgspec.Struct, frozen=True):
    """Without memory: what has waited long waits no shorter."""

    mean: float

    def draw(self, chance: Random) -> float:
        """One length."""
        return chance.expovariate(1.0 / self.mean) if self.mean > 0 else 0.0


class Weibull(msgspec.Struct, frozen=True):
    """Early failures for a shape below 1, wear for one above; 1 is exponential."""

    mean: float
    shape: float

    @property
    def scale(self) -> float:
        """The length within which 63 % have happened."""
        return self.mean / math.gamma(1.0 + 1.0 / self.shape)

    def draw(self, chance: Random) -> float:
        """One length."""
        return chance.weibullvariate(self.scale, self.shape)


class Uniform(msgspec.Struct, frozen=True):
    """Anything between two lengths, all alike."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        """Half way."""
        return (self.low + self.high) / 2

    def draw(self, chance: Random) -> float:
        """One length."""
        return chance.uniform(self.low, self.high)


Scope = Literal["process", "node", "rack", "cluster"]
"""What a failure takes with it, and so which copies of the state survive it."""

SCOPES: tuple[Scope, ...] = ("process", "node", "rack", "cluster")


class Slowness(msgspec.Struct, frozen=True):
    """A node that goes on, but slower."""

    factor: float
    """How many times longer its steps take; a synchronous job is as slow as its slowest node."""
    lasts: Duration


class FailureProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of failures: `units` things of a kind, spread evenly over the nodes."""

    name: str
    between: Duration
    """Time between failures of one unit."""
    units: int
    nodes_per_unit: int = 1
    """Nodes a unit's failure takes: more than one for a rack or a switch."""
    units_per_node: int = 1
    scope: Scope = "node"
    slow: Slowness | None = None
    """Where given, nodes become slow instead of failing."""
    repair: Duration | None = None
    """Where given, instead of the cluster's."""
    anywhere: int = 0
    """Where given, a failure hits any one of so many nodes: of a job as a whole."""

    @property
    def rate(self) -> float:
        """Failures per second of all units together."""
        return self.units / self.between.mean

    def slots(self, unit: int, chance: Random) -> range:
        """The nodes that a unit takes with it."""
        if self.anywhere:
            unit = int(chance.random() * self.anywhere)
        first = unit // self.units_per_node * self.nodes_per_unit
        return range(first, first + self.nodes_per_unit)

    def events(self, seed: str) -> FailureSource:
        """Its events in the history with this seed."""
        chance = Random(f"{seed}/{self.name}")
        if isinstance(self.between, Exponential):
            return Memoryless(self, chance)
        return Renewals(self, chance)


class FailureSource(Protocol):
    """The events of one process in one history, in order."""

    process: FailureProcess
    due: float
    """When the next event is, in operating seconds."""

    def take(self) -> range:
        """The nodes that the due event hits; the next event becomes due."""

    def renew(self, slot: int, now: float) -> None:
        """A fresh node has taken a place."""


class Memoryless:
    """Exponential times: all units together are one process, and the age of a node does not matter."""

    def __init__(self, process: FailureProcess, chance: Random) -> None:
        self.process = process
        self._chance = chance
        self._rate = process.rate
        self.due = chance.expovariate(self._rate)

    def take(self) -> range:
        """The nodes that the due event hits; the next event becomes due."""
        self.due += self._chance.expovariate(self._rate)
        return self.process.slots(int(self._chance.random() * self.process.units), self._chance)

    def renew(self, slot: int, now: float) -> None:
        """The age of a node does not matter."""


class Renewals:
    """Any distribution: every unit has an age, which starts anew with a repaired or fresh node."""

    def __init__(self, process: FailureProcess, chance: Random) -> None:
        self.process = process
        self._chance = chance
        self._draw = process.between.draw
        self._times = [(self._draw(chance), unit) for unit in range(process.units)]
        heapq.heapify(self._times)
        self._current = {unit: time for time, unit in self._times}
        self.due = self._times[0][0]

    def take(self) -> range:
        """The nodes that the due event hits; its unit starts anew."""
        unit = self._times[0][1]
        self._start(unit, self.due)
        return self.process.slots(unit, self._chance)

    def renew(self, slot: int, now: float) -> None:
        """The units of a fresh node are as good as new."""
        if self.process.nodes_per_unit > 1 or self.process.anywhere:
            return
        first = slot * self.process.units_per_node
        for unit in range(first, first + self.process.units_per_node):
            if unit < self.process.units:
                self._start(unit, now)

    def _start(self, unit: int, now: float) -> None:
        """Forgets when a unit would have failed and draws when it will."""
        time = now + self._draw(self._chance)
        self._current[unit] = time
        heapq.heappush(self._times, (time, unit))
        while self._current[self._times[0][1]] != self._times[0][0]:
            heapq.heappop(self._times)
        self.due = self._times[0][0]


class LoggedFailure(msgspec.Struct, frozen=True, order=True):
    """A failure whose time and place are known; with a factor the node became slow, else it failed."""

    time: float
    node: int
    cause: str = "log"
    scope: Scope = "node"
    factor: float | None = None
    seconds: float = 0.0
    """How long it was slow, or in repair (0: as long as the cluster's repairs take)."""
