"""A simulated run that is simulated again with changes: the same machine, the same options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chakrakit.errors import ChakraError
from chakrakit.machines import load_machine
from chakrakit.machines.device import clocks_of
from chakrakit.machines.fabric import Machine
from chakrakit.machines.residuals import difference, interval_in
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import Disturbance, SimulationOptions
from chakrakit.simulator.results import SimulationSummary, machine_of, simulate, split_fault
from chakrakit.trace.sets import Run, TraceSet

_FLAGS = {
    "compute": ("auto", "--compute"),
    "network": ("flow", "--network"),
    "framework": ("", "--framework"),
    "power_cap": (None, "--power-cap"),
    "jitter": (0.0, "--jitter"),
    "seed": (0, "--seed"),
}
"""Settings of a run's card with one value: their default, and the option of `chakra simulate`."""
_PAIRS = {"algorithms": "--algorithm", "stragglers": "--straggler", "clock": "--clock"}
_SWITCHES = {"share_compute": "--share-compute", "allow_empty": "--allow-empty"}
_UNTRIED = (
    "network_model",
    "custom",
    "dispatch",
    "collectives",
    "placement",
    "assume_missing",
    "host",
)
"""Settings that say how a run was simulated and that a card does not hold whole."""
_SAME = 1e-6
"""The share by which a run simulated again may differ: rounding of picoseconds."""


@dataclass(frozen=True)
class Setting:
    """What a run was simulated on and how, as its card says."""

    machine: Machine
    options: SimulationOptions
    compute: str
    flags: tuple[str, ...]
    """The options of `chakra simulate`."""

    def summary(self, traces: TraceSet) -> SimulationSummary:
        """Traces simulated as the run was."""
        done = simulate(traces, self.machine, compute=self.compute, options=self.options)
        return done.summary

    def with_algorithm(self, collective: str, name: str) -> Setting:
        """The same with one collective's algorithm given."""
        fixed = {**self.options.algorithms.fixed, collective: name}
        flags = (*self.flags, "--algorithm", f"{collective}={name}")
        return replace(
            self, options=replace(self.options, algorithms=Algorithms(fixed)), flags=flags
        )

    def without_stragglers(self) -> Setting:
        """The same with all ranks as fast as each other."""
        even = replace(self.options.disturbance, stragglers={})
        at = [i for i, flag in enumerate(self.flags) if flag == _PAIRS["stragglers"]]
        gone = {*at, *(i + 1 for i in at)}
        kept = [flag for i, flag in enumerate(self.flags) if i not in gone]
        return replace(self, options=replace(self.options, disturbance=even), flags=tuple(kept))

    def command(self, traces: str, output: str) -> str:
        """The command line that simulates traces so."""
        return shlex.join(["chakra", "simulate", traces, *self.flags, "-o", output])


def setting_of(run: Run, machine: str) -> Setting | None:
    """How a run was simulated; None where its card does not say enough to do it again.

    `machine` is what it was simulated on, where that is no preset, which a card would name.
    """
    settings = run.card.settings
    machine = machine or machine_of(run)
    if not machine or any(settings.get(n) is not None for n in _UNTRIED):
        return None
    stragglers = dict(settings.get("stragglers") or {})
    if any("@" in str(factor) for factor in stragglers.values()):
        return None
    try:
        options = SimulationOptions(
            network=settings.get("network", "flow"),
            algorithms=Algorithms(_fixed(settings)),
            disturbance=Disturbance(
                settings.get("jitter", 0.0),
                settings.get("seed", 0),
                {int(rank): float(factor) for rank, factor in stragglers.items()},
                tuple(map(split_fault, settings.get("faults", ()))),
            ),
            clocks=clocks_of(settings.get("clock", {}), settings.get("power_cap")),
            framework=settings.get("framework", ""),
            share_compute=bool(settings.get("share_compute")),
            allow_empty=bool(settings.get("allow_empty")),
        )
        loaded = load_machine(machine)
    except (ChakraError, TypeError, ValueError):
        return None
    flags = ("--machine", machine, *_flags(settings))
    return Setting(loaded, options, str(settings.get("compute", "auto")), flags)


def _fixed(settings: Mapping[str, Any]) -> dict[str, str]:
    fixed = settings.get("algorithms")
    return dict(fixed) if isinstance(fixed, dict) else {}


def _flags(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, (default, flag) in _FLAGS.items():
        if (value := settings.get(name, default)) != default:
            yield from (flag, str(value))
    for name, flag in _PAIRS.items():
        pairs = settings.get(name)
        for left, right in pairs.items() if isinstance(pairs, dict) else ():
            yield from (flag, f"{left}={right}" if left else str(right))
    for fault in settings.get("faults", ()):
        yield from ("--fault", str(fault))
    yield from (flag for name, flag in _SWITCHES.items() if settings.get(name))


def is_same(summary: SimulationSummary, span_ns: float) -> bool:
    """Whether simulating a run again gave its time."""
    return abs(summary.makespan_ns - span_ns) <= _SAME * span_ns + 1


def saving(
    before: SimulationSummary, after: SimulationSummary, work: float
) -> tuple[float, tuple[float, float] | None]:
    """What is saved and its interval in ns, where `after` does `work` times what `before` does."""
    saved = before.makespan_ns - after.makespan_ns / work
    a, b = interval_in(before), interval_in(after)
    if a is None or b is None:
        return saved, None
    b = b.scaled(1 / work)
    more = difference(a, b, -saved)
    # What is saved lies between the ends of both steps: the changed one is possible too.
    low, high = max(-more[1], a.low_ns - b.high_ns), min(-more[0], a.high_ns - b.low_ns)
    return saved, (min(low, saved), max(high, saved))
