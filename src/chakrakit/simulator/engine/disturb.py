"""Disturbances of a simulation: stragglers, jitter, and links and devices that slow down or fail.

Jitter is drawn from a seed, so that runs can be repeated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device import HORIZON_PS, picoseconds, too_long
from chakrakit.machines.fabric import Machine


@dataclass(frozen=True)
class Fault:
    """From `at_ns` on, something works at `factor` of its speed; 0 is a failure, 1 the recovery.

    `target` is a rank or the name of its device; for a link (from, to), as ranks, devices' names or vertex
    names, and both ways count; for a store its name, and all of its servers are meant.
    """

    kind: Literal["device", "link", "store"]
    target: int | str | tuple[int | str, int | str]
    at_ns: float
    factor: float

    def __post_init__(self) -> None:
        if not (0 <= self.factor < float("inf")) or not (0 <= self.at_ns < 2**52):
            raise ConfigError(
                f"fault on {self.target}: factor {self.factor} at {self.at_ns} ns is impossible"
            )


@dataclass(frozen=True)
class Disturbance:
    """All disturbances of a simulation, which make ranks differ.

    `jitter` is the standard deviation of each row's duration, as a share of it: durations are multiplied
    by e^(jitter·z), z normal, with a generator seeded by (seed, rank). `stragglers` multiplies all
    durations of a rank's device rows.
    """

    jitter: float = 0.0
    seed: int = 0
    stragglers: Mapping[int, float] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    drawn_as: Sequence[int] = ()
    """For each rank the rank number that seeds its jitter; by default its own."""
    onsets: Mapping[int, int] = field(default_factory=dict)
    """The first step in which a straggler is slow; by default the first of all."""

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < 10:
            raise ConfigError(f"jitter {self.jitter}; give a share from 0 to 10, such as 0.05")
        if self.seed < 0:
            raise ConfigError(f"seed {self.seed}; give 0 or more")
        for rank, factor in self.stragglers.items():
            if not 0 < factor < 1e6:
                raise ConfigError(f"straggler {rank}: factor {factor} is not between 0 and 1e6")
        for rank, onset in self.onsets.items():
            if onset < 0:
                raise ConfigError(f"straggler {rank}: no step {onset}; the first is 0")

    def check_ranks(self, ranks: Sequence[int]) -> None:
        """Raises an error if a disturbed rank is not among these."""
        present = set(ranks)
        hit = [f.target for f in self.faults if isinstance(f.target, int)]
        for option, disturbed in (("--straggler", list(self.stragglers)), ("--fault", hit)):
            for rank in disturbed:
                if rank not in present:
                    raise ConfigError(f"{option}: no rank {rank}; {nearest(rank, ranks)}")

    def of(self, ranks: Sequence[int]) -> Disturbance:
        """The disturbances of these ranks, numbered from 0 in this order, and of all links."""
        number = {rank: i for i, rank in enumerate(ranks)}
        faults = [f for f in self.faults if not isinstance(f.target, int) or f.target in number]
        return replace(
            self,
            stragglers={number[r]: by for r, by in self.stragglers.items() if r in number},
            onsets={number[r]: step for r, step in self.onsets.items() if r in number},
            faults=[
                replace(f, target=number[f.target]) if isinstance(f.target, int) else f
                for f in faults
            ],
            drawn_as=tuple(ranks),
        )

    def on(self, machine: Machine, ranks: Sequence[int], device_of: I64) -> Disturbance:
        """The same with devices that faults call by name as the ranks on them; idle devices cannot fail."""
        if not any(isinstance(f.target, str) for f in self.faults):
            return self
        rank_on = {int(d): rank for rank, d in zip(ranks, device_of, strict=True)}
        faults = [_numbered(f, machine, rank_on) for f in self.faults]
        return replace(self, faults=[f for f in faults if f is not None])

    def key(self, rank: int) -> tuple[object, ...]:
        """A key of the rank's disturbances; ranks with equal keys are disturbed equally."""
        faults = tuple(f for f in self.faults if f.kind == "device" and f.target == rank)
        slow = (self.stragglers.get(rank, 1.0), self.onsets.get(rank, 0))
        return (rank if self.jitter else -1, *slow, faults)

    def apply(
        self, rank: int, durations: I64, device_rows: Mask, steps: Callable[[], I64] | None = None
    ) -> I64:
        """A rank's durations with its jitter and straggler factor; `steps` gives the step of each row."""
        onset = self.onsets.get(rank, 0)
        slowed = device_rows & _from_step(rank, onset, steps()) if onset and steps else device_rows
        factor = np.where(slowed, self.stragglers.get(rank, 1.0), 1.0)
        if self.jitter:
            drawn = self.drawn_as[rank] if self.drawn_as else rank
            chance = np.random.Generator(np.random.Philox([self.seed, drawn]))
            draws = chance.standard_normal(len(durations))
            factor = factor * np.exp(self.jitter * draws)
        if (factor == 1.0).all():
            return durations
        disturbed = durations * factor
        if disturbed.max(initial=0.0) > HORIZON_PS:
            raise too_long(f"an operation of rank {rank}", f"{disturbed.max() / 1e12:g} s")
        return np.rint(disturbed).astype(np.int64)


def _from_step(rank: int, onset: int, steps: I64) -> Mask:
    """Rows of a step or later; an error where there is none."""
    last = int(steps.max(initial=-1))
    if last < onset:
        raise ConfigError(f"straggler {rank}: no step {onset}; the last is {last}")
    return np.asarray(steps >= onset)


def store_links(machine: Machine, name: str) -> range:
    """The links of all servers of a store."""
    names = [store.name for store in machine.stores]
    if name not in names:
        raise ConfigError(f"--fault: no store {name!r}; {nearest(name, names)}")
    return machine.store_links(names.index(name))


def link_changes(machine: Machine, faults: Sequence[Fault]) -> list[tuple[int, int, float]]:
    """When a link gets which factor of its bandwidth, in order of time: schedules times faults."""
    schedule: dict[int, list[tuple[int, float]]] = {}
    for links, changes in machine.schedules():
        points = [(picoseconds(c.at, "the time of a schedule"), c.factor) for c in changes]
        schedule |= dict.fromkeys(links, points)
    failing: dict[int, list[tuple[int, float]]] = {}
    for fault in sorted(faults, key=lambda f: f.at_ns):
        at = picoseconds(fault.at_ns * 1e-9, f"the time of the fault on {fault.target}")
        for link in _links_of(machine, fault):
            failing.setdefault(link, []).append((at, fault.factor))
    found = []
    for link in schedule.keys() | failing.keys():
        own, faulty = schedule.get(link, []), failing.get(link, [])
        for at in sorted({at for at, _ in own} | {at for at, _ in faulty}):
            found.append((at, link, _factor(own, at) * _factor(faulty, at)))
    return sorted(found)


def _factor(points: list[tuple[int, float]], at: int) -> float:
    """The last that holds at a time; 1 before the first."""
    place = bisect_right(points, at, key=lambda point: point[0])
    return points[place - 1][1] if place else 1.0


def _links_of(machine: Machine, fault: Fault) -> Sequence[int]:
    if fault.kind == "store":
        return store_links(machine, str(fault.target))
    if fault.kind == "link" and isinstance(fault.target, tuple):
        return link_numbers(machine, fault.target)
    return ()


def _numbered(fault: Fault, machine: Machine, rank_on: Mapping[int, int]) -> Fault | None:
    """A fault of a device by its rank; None where nothing runs there."""
    if fault.kind != "device" or not isinstance(fault.target, str):
        return fault
    names = machine.device_names
    if fault.target not in names:
        raise ConfigError(
            f"--fault: {fault.target!r} is neither a rank nor a device; {nearest(fault.target, names)}"
        )
    rank = rank_on.get(names.index(fault.target))
    return None if rank is None else replace(fault, target=rank)


def link_numbers(machine: Machine, ends: tuple[int | str, int | str]) -> list[int]:
    """The links between two vertices, both ways."""
    names = machine.vertex_names()
    number = {name: i for i, name in enumerate(names)}
    number |= {name: i for i, name in enumerate(machine.device_names)}
    vertices = []
    for end in ends:
        vertex = end if isinstance(end, int) else number.get(end, -1)
        if not 0 <= vertex < len(names):
            raise ConfigError(f"--fault: no vertex {end!r}; {nearest(end, number)}")
        vertices.append(vertex)
    a, b = vertices
    links = machine.links
    both = ((links.src == a) & (links.dst == b)) | ((links.src == b) & (links.dst == a))
    if not both.any():
        raise ConfigError(f"no link between {names[a]} and {names[b]}")
    return [int(i) for i in np.flatnonzero(both)]
