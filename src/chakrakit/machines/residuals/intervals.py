"""How far predicted times may be off: residuals of rows that were not fitted, and intervals that follow.

`residuals.json` (benchmarks/residuals.py writes it) holds the 5th, 50th and 95th percentile of the logarithm
of measured over predicted time: for kernels by rung of the ladder, kind of work, size, whether they lie
outside of what was measured, and system; for collectives by system, kind and size; for served requests by
engine and system; for whole training steps by framework and machine. Where a group has too few rows, a wider
one stands in for it, made as wide as those few.

Errors of equal operations are one error. Those of different operations of one group share a part
(`correlation`), so that a step's interval does not shrink to nothing however many operations it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from chakrakit.configuration import read_json
from chakrakit.results import Result

_FILE = Path(__file__).parent / "residuals.json"
LEAST_ROWS = 20
"""Rows from which a group stands alone: the outermost of 19 hold a further one in 90 % of cases, those of
fewer in less."""
SIZES = (5e-6, 50e-6)
"""Predicted seconds that separate small, middle and large operations: the shortest kernels, which are all
latency, and those from which rates count (docs/accuracy.md tells products apart by the same)."""
_MOST_OPERATIONS = 20
"""Operations of a group that an interval names: those beyond hardly change how far a sum may be off."""
BETWEEN_NODES = "between nodes"
"""The system of collectives that leave a node: nothing but DeepEP's exchange was measured there."""
NO_FRAMEWORK = "any"
"""The framework in the group of steps that stand for none: kernels alone."""
_KINDS = {"computation": ("kernel",), "network": ("collective", BETWEEN_NODES)}
HOST_GROUP = ("host", "modelled")
"""The group of a host that launches kernels at modelled costs: all of its operations have one error."""


class ErrorSpread(msgspec.Struct, frozen=True):
    """Percentiles of log(measured / predicted) in a group of rows that were not fitted."""

    rows: int
    low: float
    middle: float
    high: float


class ResidualTable(msgspec.Struct, frozen=True):
    """The file: groups by name, their parts joined by `/`, from wide to narrow."""

    made_from: list[str]
    correlation: float
    """The share of the variance of a group's errors that all of its operations have in common."""
    groups: dict[str, ErrorSpread]
    coverage: dict[str, tuple[int, float]] = {}
    """By kind and by system: rows that were left out, and the share of them within their 90 % intervals."""

    def spread(self, *parts: str) -> ErrorSpread | None:
        """The narrowest group with enough rows: all parts, then without the last, and so on.

        Rows of a narrower group that are too few to stand alone widen it: what was seen there may be seen
        again.
        """
        few: list[ErrorSpread] = []
        for end in range(len(parts), 0, -1):
            found = self.groups.get("/".join(parts[:end]))
            if found is not None and found.rows >= LEAST_ROWS:
                return _around([found, *few])
            few += [found] if found is not None else []
        return None

    def cautious(self, *parts: str) -> ErrorSpread | None:
        """The spread of a group, never narrower than that of groups about which more is known.

        A system that nobody measured is at least as uncertain as each that was, and as the device that its
        times are carried from; a step of a framework or machine without published ones as all that have
        some; work outside of what was measured as work within.
        """
        found = self.spread(*parts)
        if found is None:
            return None
        return _around(
            [found, *filter(None, (self.spread(*other) for other in self._surer(parts)))]
        )

    def _surer(self, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Groups about which more is known than about this one."""
        kind = parts[0]
        if kind == "step" and not self._measured("/".join(parts)):
            steps = (name for name in self.groups if name.startswith("step/"))
            yield from (tuple(name.split("/")) for name in steps if self._measured(name))
        if (at := _SYSTEM_AT.get(kind, len(parts))) >= len(parts):
            return
        before = parts[: 2 if kind == "kernel" else at]
        known = self._systems(before, at)
        if parts[at] not in known:
            yield from ((*parts[:at], system, *parts[at + 1 :]) for system in sorted(known))
            if parts[:2] == ("kernel", "carried profile"):
                yield from ((*parts[:1], "measured profile", *parts[2:at], s) for s in _TIMED)
        if kind == "kernel" and parts[_PLACE_AT] == "beyond":
            within = (*parts[:_PLACE_AT], "within", *parts[_PLACE_AT + 1 :])
            yield within
            yield from self._surer(within)

    def _measured(self, name: str) -> bool:
        """Whether a group has rows enough to stand alone."""
        found = self.groups.get(name)
        return found is not None and found.rows >= LEAST_ROWS

    def _systems(self, before: tuple[str, ...], at: int) -> set[str]:
        """The systems of groups that begin so."""
        names = (name.split("/") for name in self.groups if self._measured(name))
        return {n[at] for n in names if len(n) > at and tuple(n[: len(before)]) == before}


_SYSTEM_AT = {"kernel": 5, "collective": 1, "serving": 3}
_PLACE_AT = 4
"""Where the name of a group has its system, and whether the work lies outside of what was measured."""
_TIMED = ("h200",)
"""The device that all carried times were measured on."""


def _around(spreads: list[ErrorSpread]) -> ErrorSpread:
    """The first spread, made as wide as all of them together."""
    low, high = min(s.low for s in spreads), max(s.high for s in spreads)
    return msgspec.structs.replace(spreads[0], low=low, high=high)


@cache
def residual_table() -> ResidualTable:
    """The table of the package."""
    return read_json(_FILE, ResidualTable, "residuals")


def size_name(seconds: float) -> str:
    """`small`, `middle` or `large`, by predicted time."""
    return ("small", "middle", "large")[sum(seconds >= limit for limit in SIZES)]


def kernel_group(
    rung: str, system: str, kind: str, seconds: float, beyond: bool
) -> tuple[str, ...]:
    """The group of a kernel: its rung (`measured profile`, …), what it does, its size, its system."""
    place = "beyond" if beyond else "within"
    return ("kernel", rung, kind, size_name(seconds), place, system)


def collective_group(system: str, collective: str, seconds: float) -> tuple[str, ...]:
    """The group of a collective by its system, kind and size; those between nodes have one of their own."""
    place = (system,) if system == BETWEEN_NODES else ("collective", system)
    return (*place, collective, size_name(seconds))


def step_group(framework: str, machine: str) -> tuple[str, ...]:
    """The group of a generated training step, by the framework it stands for and the machine."""
    return ("step", framework or NO_FRAMEWORK, machine.partition(":")[0])


class Contribution(NamedTuple):
    """Time on a critical path that comes from one operation, and the group that its error is known by."""

    group: tuple[str, ...]
    operation: str
    """Operations with equal names have one error."""
    seconds: float
    least_seconds: float = 0.0
    """What data sheets allow: no measured time is shorter."""


class TimeInterval(Result, msgspec.Struct, frozen=True):
    """A predicted time and where 90 of 100 measured ones should lie, in ns."""

    low_ns: float
    high_ns: float
    computation_ns: float = 0.0
    """Half of the interval's width that comes from computation alone, and from the network alone."""
    network_ns: float = 0.0
    modelled: bool = False
    """Whether a part of it was modelled and not measured: what happens between nodes."""
    groups: dict[str, tuple[float, float, float, float]] = {}
    """By group: ns on the critical path, and shares by which they may be shorter, are off, or longer."""
    operations: dict[str, dict[str, float]] = {}
    """By group: ns of the operations that take longest, and of all others together."""
    step: str = ""
    """The group of whole training steps that it is one of."""
    clock_mhz: float = 0.0
    """The lowest clock of its devices; 0 where that is not known."""

    def scaled(self, share: float) -> TimeInterval:
        """The interval of a share of the time."""
        return TimeInterval(
            low_ns=self.low_ns * share,
            high_ns=self.high_ns * share,
            computation_ns=self.computation_ns * share,
            network_ns=self.network_ns * share,
            modelled=self.modelled,
            groups={name: (g[0] * share, g[1], g[2], g[3]) for name, g in self.groups.items()},
            operations={
                group: {name: ns * share for name, ns in operations.items()}
                for group, operations in self.operations.items()
            },
            step=self.step,
            clock_mhz=self.clock_mhz,
        )


class Predicted(Protocol):
    """Any result with a predicted time and what its interval is made of."""

    @property
    def interval_ns(self) -> tuple[float, float] | None:
        """Where 90 of 100 measured times should lie."""
        ...

    @property
    def interval_groups(self) -> dict[str, tuple[float, float, float, float]]:
        """What the interval is made of, as in `Interval`."""
        ...

    @property
    def interval_operations(self) -> dict[str, dict[str, float]]:
        """The longest operations of each group, as in `Interval`."""
        ...

    @property
    def interval_step(self) -> str:
        """The group of whole training steps, as in `Interval`."""
        ...


def interval_in(result: Predicted) -> TimeInterval | None:
    """The interval that a result says; None where it has none."""
    if result.interval_ns is None:
        return None
    return TimeInterval(
        *result.interval_ns,
        groups=result.interval_groups,
        operations=result.interval_operations,
        step=result.interval_step,
        clock_mhz=getattr(result, "clock_mhz", None) or 0.0,
    )


def interval_of(
    total_seconds: float,
    parts: Iterable[Contribution],
    step: tuple[str, ...] = (),
    least_seconds: float = 0.0,
) -> TimeInterval | None:
    """The interval of a time that is made of these parts; None where nothing is known of any of them.

    A whole training step (`step`: its group) is no surer than published steps were: what no operation says,
    such as waiting for the host, is in their residuals alone. No interval begins before what the data sheets
    allow its parts together, nor before `least_seconds`.
    """
    table, least = residual_table(), 0.0
    by_group: dict[tuple[str, ...], dict[str, float]] = {}
    for part in parts:
        operations = by_group.setdefault(part.group, {})
        operations[part.operation] = operations.get(part.operation, 0.0) + part.seconds
        least += min(part.least_seconds, part.seconds)
    groups, widths = {}, []
    for group, operations in by_group.items():
        spread = table.cautious(*group)
        if spread is None:
            continue
        shares = shares_of(spread, _effective(operations.values(), table.correlation))
        seconds = sum(operations.values())
        name = "/".join(group)
        groups[name] = (seconds * 1e9, *shares)
        widths.append((group[0], [seconds * s * 1e9 for s in shares]))
    if not groups:
        return None
    low, high, bias = combined(widths)
    total = total_seconds * 1e9
    whole = table.cautious(*step) if step else None
    if whole is not None:
        low = max(low, bias - total * math.expm1(whole.low))
        high = max(high, total * math.expm1(whole.high) - bias)
    sides = {
        kind: combined([w for w in widths if w[0] in names])[:2] for kind, names in _KINDS.items()
    }
    return TimeInterval(
        # Rates of a data sheet are reached by no kernel: all measured times may lie above such a time. An
        # interval begins and ends no nearer than the time that it is printed with.
        low_ns=min(max(total + bias - low, max(least, least_seconds) * 1e9), total),
        high_ns=max(total + bias + high, total),
        computation_ns=sum(sides["computation"]) / 2,
        network_ns=sum(sides["network"]) / 2,
        modelled=any(group[0] == BETWEEN_NODES for group in by_group),
        groups=groups,
        operations={
            "/".join(group): _longest(operations) for group, operations in by_group.items()
        },
        step="/".join(step),
    )


def is_computation(group: str) -> bool:
    """Whether a group's name, its parts joined, is of kernels."""
    return group.partition("/")[0] in _KINDS["computation"]


def _longest(operations: dict[str, float]) -> dict[str, float]:
    """The ns of the longest operations, and of all others together."""
    order = sorted(operations, key=lambda name: -operations[name])
    longest = {name: operations[name] * 1e9 for name in order[:_MOST_OPERATIONS]}
    others = sum(operations[name] for name in order[_MOST_OPERATIONS:]) * 1e9
    return {**longest, "others": others} if others else longest


def beside_host(found: TimeInterval | None, host_seconds: float) -> TimeInterval | None:
    """The interval of a time beside which a modelled host works so long: a slower one would bound it."""
    spread = residual_table().spread(*HOST_GROUP)
    if found is None or spread is None:
        return found
    slow_ns = host_seconds * 1e9 * math.exp(spread.high)
    return msgspec.structs.replace(found, high_ns=max(found.high_ns, slow_ns))


def at_least(whole: TimeInterval, part: TimeInterval | None) -> TimeInterval:
    """The interval of a time that ends no sooner than a part of it does, whichever bounds it."""
    if part is None:
        return whole
    return msgspec.structs.replace(whole, high_ns=max(whole.high_ns, part.high_ns))


def _effective(seconds: Iterable[float], correlation: float) -> float:
    """The width of a sum of operations over the sum of their widths: 1 for one, √correlation for many."""
    parts = list(seconds)
    total = sum(parts) or 1.0
    alone = sum(s * s for s in parts) / (total * total)
    return math.sqrt(correlation + (1 - correlation) * alone)


def shares_of(spread: ErrorSpread, width: float) -> tuple[float, float, float]:
    """Shares of a time: how much shorter than usual, how far the usual is off, how much longer."""
    middle = math.expm1(spread.middle)
    low = (1 + middle) * -math.expm1((spread.low - spread.middle) * width)
    high = (1 + middle) * math.expm1((spread.high - spread.middle) * width)
    return low, middle, high


def combined(widths: Iterable[tuple[str, list[float]]]) -> tuple[float, float, float]:
    """Widths below and above of independent groups together, and the sum of their biases."""
    rows = [w for _, w in widths]
    low, high = (math.sqrt(sum(w[i] ** 2 for w in rows)) for i in (0, 2))
    return low, high, sum(w[1] for w in rows)


class _Shares(NamedTuple):
    """How much shorter and longer than predicted a served figure may be, as factors."""

    low: float
    high: float


def _served_shares(figure: str, engine: str, system: str) -> _Shares | None:
    """What published runs of an engine showed of `ttft` or `tpot`.

    A system that none of them ran on is at least as uncertain as each of those that they did.
    """
    found = residual_table().cautious("serving", figure, engine, system)
    if found is None:
        return None
    return _Shares(math.exp(min(found.low, 0.0)), math.exp(max(found.high, 0.0)))


def served_intervals(
    machine: str, engine: str, figures: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, tuple[float, float]]]:
    """The intervals of served figures' means and percentiles, for machines and engines by their names.

    A request takes the time to its first token and then that of the others, each with its own error.
    """
    system, kind = machine.partition(":")[0], engine.partition("{")[0].partition(":")[0]
    first, later = (_served_shares(figure, kind, system) for figure in ("ttft", "tpot"))
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    for name, shares in (("ttft_ms", first), ("tpot_ms", later)):
        if shares is not None and name in figures:
            known = figures[name].items()
            intervals[name] = {k: (v * shares.low, v * shares.high) for k, v in known}
    if first is not None and later is not None and {"ttft_ms", "e2e_ms"} <= set(figures):
        begun = {k: min(figures["ttft_ms"].get(k, 0.0), v) for k, v in figures["e2e_ms"].items()}
        intervals["e2e_ms"] = {
            k: (
                begun[k] * first.low + (v - begun[k]) * later.low,
                begun[k] * first.high + (v - begun[k]) * later.high,
            )
            for k, v in figures["e2e_ms"].items()
        }
    return intervals


def groups_of(rows: Iterable[tuple[tuple[str, ...], float]]) -> Iterator[tuple[str, list[float]]]:
    """Residuals of every group and of every wider group around it."""
    out: dict[str, list[float]] = {}
    for group, residual in rows:
        for end in range(1, len(group) + 1):
            out.setdefault("/".join(group[:end]), []).append(residual)
    yield from out.items()
