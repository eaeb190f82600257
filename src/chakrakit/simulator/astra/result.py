"""The options and the result of an ASTRA-sim run: cycles of every rank, times of every node, a summary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.results import Facts, Result
from chakrakit.simulator.astra.config import Config

Backend = Literal["unaware", "aware"]


@dataclass(frozen=True)
class AstraOptions:
    """One run's settings; the defaults are ASTRA-sim's.

    `lenient` gives ASTRA-sim's result instead of an error where that result is silently wrong or some ranks
    never finish. `fold` simulates equal ranks once; the result is the same either way.
    """

    backend: Backend = "unaware"
    queues: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    lenient: bool = False
    fold: bool = True

    def __post_init__(self) -> None:
        if self.backend not in ("unaware", "aware"):
            raise ConfigError(f"--backend is {self.backend!r}; it must be unaware or aware")
        if not 1 <= self.queues <= 1024:
            raise ConfigError(f"--queues is {self.queues}; it must be 1 to 1024")
        if not 0 <= self.injection_scale < 1e9:
            raise ConfigError(f"--injection-scale is {self.injection_scale}; it must be 0 or more")


class AstraRank(Result, msgspec.Struct, kw_only=True):
    """When one rank finished."""

    rank: int
    cycles: int | None
    """None where the rank never finished, which only `lenient` allows."""
    exposed_cycles: int | None
    """Cycles less the time of GPU compute."""


class AstraSummary(Result, msgspec.Struct, kw_only=True):
    """ASTRA-sim's result; a cycle is a nanosecond."""

    ranks: list[AstraRank]
    max_cycles: int | None
    classes: int
    """Classes of ranks that are certain to behave alike; one rank of each was simulated."""
    folded: bool
    why_not_folded: str
    stuck: str
    """Why some ranks never finished; empty where all did."""
    ignored: list[str]
    """Keys of the files that have no effect."""


@dataclass(frozen=True, eq=False, repr=False)
class AstraSimulation(Facts):
    """One simulation. A tick is a nanosecond; -1 stands for never (only with `lenient`).

    Ranks that were folded share a *class*; every figure is available by rank all the same.
    """

    program: core.AstraProgram
    outcome: core.AstraResult
    config: Config
    options: AstraOptions
    groups: dict[int, list[int]]

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.program.ranks

    @cached_property
    def class_of(self) -> NDArray[np.uint32]:
        """Each rank's class."""
        return self.outcome.actor_of

    @cached_property
    def representative(self) -> NDArray[np.uint32]:
        """The rank that was simulated for each class."""
        return self.outcome.representative

    @cached_property
    def cycles(self) -> I64:
        """When each rank finished."""
        return self.outcome.finished[self.class_of]

    @cached_property
    def exposed(self) -> I64:
        """Exposed communication as ASTRA-sim defines it: cycles less the time of GPU compute."""
        never = self.cycles < 0
        return np.where(never, -1, self.cycles - self.outcome.gpu_time[self.class_of])

    @property
    def fold_factor(self) -> float:
        """Ranks per simulated rank: 1 when nothing was folded."""
        return self.ranks / len(self.representative)

    @property
    def folded(self) -> bool:
        """Whether one rank was simulated for each class of equal ranks."""
        return self.outcome.folded

    @property
    def why_not_folded(self) -> str:
        """Why every rank was simulated; empty when they were folded."""
        return self.outcome.why_not_folded

    @property
    def stuck(self) -> str:
        """Why some ranks never finished; empty when all did."""
        return self.outcome.stuck

    def table(self, rank: int) -> dict[str, NDArray[Any]]:
        """A rank's nodes in ascending id, by column: id, type, is_cpu_op, collective, group, bytes."""
        return self._table(int(self.program.body_of[rank]))

    def _table(self, body: int) -> dict[str, NDArray[Any]]:
        if body not in self._tables:
            self._tables[body] = self.program.bodies[body].table()
        return self._tables[body]

    @cached_property
    def _tables(self) -> dict[int, dict[str, NDArray[Any]]]:
        return {}

    def start(self, rank: int) -> I64:
        """When each of a rank's nodes was issued, in the order of `table`."""
        return self.outcome.start(int(self.class_of[rank]))

    def end(self, rank: int) -> I64:
        """When each of a rank's nodes was done."""
        return self.outcome.end(int(self.class_of[rank]))

    def facts(self) -> AstraSummary:
        """The summary that `chakra simulate --astra --json` prints."""
        cycles = [None if c < 0 else c for c in self.cycles.tolist()]
        exposed = self.exposed.tolist()
        return AstraSummary(
            ranks=[
                AstraRank(rank=r, cycles=c, exposed_cycles=None if c is None else exposed[r])
                for r, c in enumerate(cycles)
            ],
            max_cycles=max((c for c in cycles if c is not None), default=None),
            classes=len(self.representative),
            folded=self.folded,
            why_not_folded=self.why_not_folded,
            stuck=self.stuck,
            ignored=[str(key) for key in self.config.ignored],
        )


_ROWS = 16
"""Rows of the table that is printed; longer lists end with an ellipsis."""


def rows(result: AstraSimulation) -> list[tuple[str, str, str]]:
    """Ranks, cycles and exposed communication as text; equal neighbours share a row, long lists are cut."""
    lines = [
        (
            str(first) if first == last else f"{first}–{last}",
            "never" if cycles < 0 else f"{cycles:,}",
            "never" if cycles < 0 else f"{exposed:,}",
        )
        for first, last, cycles, exposed in _spans(result)
    ]
    return lines if len(lines) <= _ROWS else [*lines[:_ROWS], ("…", "…", "…")]


def about(result: AstraSimulation) -> str:
    """A line or two about how many ranks were simulated, and why some never finished."""
    if result.folded:
        count = len(result.representative)
        folded = f"{result.ranks} ranks in {count} class{'es' if count > 1 else ''}"
    else:
        folded = f"{result.ranks} ranks, not folded: {result.why_not_folded}"
    return f"{folded}\n{result.stuck}" if result.stuck else folded


def _spans(result: AstraSimulation) -> list[tuple[int, int, int, int]]:
    spans: list[tuple[int, int, int, int]] = []
    figures = zip(result.cycles.tolist(), result.exposed.tolist(), strict=True)
    for rank, (cycles, exposed) in enumerate(figures):
        if spans and spans[-1][2:] == (cycles, exposed):
            spans[-1] = (spans[-1][0], rank, cycles, exposed)
        else:
            spans.append((rank, rank, cycles, exposed))
    return spans
