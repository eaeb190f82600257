"""Fits a library's constants to measured collectives by robust least squares of the relative error.

The tuner's choice among algorithms and protocols is not fitted, so it is known which constants each
measurement depends on. Constants are fitted as logarithms (all are positive), with a loss that grows only
linearly for outliers, because single measurements of small collectives are off by factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.machines.library.constants import Library, Span
from chakrakit.machines.library.cost import cost, crossed
from chakrakit.machines.library.tuner import choose

LEAST_ROWS = 12
"""Three protocols have a launch, a hop and a bandwidth each; fewer measurements cannot tell these apart."""
LARGE = 1 << 20
"""Bytes from which a measurement shows bandwidth, repeats better and has more weight."""
_SCALE = 0.04
"""Relative error from which a measurement counts as an outlier."""


class Measurement(NamedTuple):
    """A collective that was timed: bytes as nccl-tests count them."""

    collective: str
    members: int
    size: int
    seconds: float


Placed = Callable[[int], Span]
"""Gives the span of a group by its number of members."""


def predict(library: Library, row: Measurement, span: Span) -> float:
    """Seconds of a measured collective with the algorithm and protocol that the library chooses."""
    algorithm, protocol = choose(library, row.collective, row.size, span)
    return cost(library, row.collective, algorithm, protocol, row.size, span).seconds


def fit_library(start: Library, rows: Sequence[Measurement], placed: Placed) -> Library:
    """The constants that fit the measurements best, found from those of `start`."""
    _check(rows)
    start = msgspec.structs.replace(start, fitted_members=max(2, *(r.members for r in rows)))
    spans = {n: placed(n) for n in {r.members for r in rows}}
    over_bridge = any(crossed(start, span) is not None for span in spans.values())
    names = [
        path
        for path, value in _constants(start)
        if value > 0 and _touched(path, rows) and (over_bridge or not path.startswith("bridge"))
    ]
    target = np.log([r.seconds for r in rows])
    weight = np.array([1.5 if r.size >= LARGE else 0.7 for r in rows])

    def residuals(x: F64) -> F64:
        library = _replaced(start, dict(zip(names, np.exp(x), strict=True)))
        predicted = np.log([predict(library, r, spans[r.members]) for r in rows])
        return np.asarray((predicted - target) * weight)

    values = dict(_constants(start))
    best = descend(residuals, np.log([values[n] for n in names]))
    return _replaced(start, dict(zip(names, np.exp(best), strict=True)))


def _check(rows: Sequence[Measurement]) -> None:
    if len(rows) < LEAST_ROWS:
        raise ConfigError(
            f"{len(rows)} measured collectives are too few to fit a library; give at least {LEAST_ROWS}"
        )
    sizes = {r.size for r in rows}
    if len(sizes) < 4:
        raise ConfigError(
            f"{len(sizes)} sizes are too few to tell latency from bandwidth; give 4 or more"
        )


_FITTED = ("launch_us", "ll", "ll128", "simple", "exchange", "in_switch", "bridge")


def _constants(library: Library) -> list[tuple[str, float]]:
    """The numbers that are fitted, by path."""
    out: list[tuple[str, float]] = []
    for name in _FITTED:
        value = getattr(library, name)
        if isinstance(value, msgspec.Struct):
            fields = msgspec.structs.asdict(value)
            out += [(f"{name}.{k}", float(v)) for k, v in fields.items() if isinstance(v, float)]
        elif value is not None:
            out.append((name, float(value)))
    return out


def _touched(path: str, rows: Sequence[Measurement]) -> bool:
    """Whether any measurement depends on a constant."""
    kinds = {r.collective for r in rows}
    if path.startswith("exchange"):
        return bool(kinds & {"all-to-all", "gather", "scatter", "message"})
    if path.startswith("in_switch"):
        return "all-reduce" in kinds
    return True


def _replaced(library: Library, values: dict[str, float]) -> Library:
    parts: dict[str, Any] = {}
    for path, value in values.items():
        head, _, tail = path.partition(".")
        if tail:
            parts[head] = msgspec.structs.replace(
                parts.get(head, getattr(library, head)), **{tail: float(value)}
            )
        else:
            parts[head] = float(value)
    return msgspec.structs.replace(library, **parts)


def descend(residuals: Callable[[F64], F64], x: F64, rounds: int = 60) -> F64:
    """The x with the least residuals, by Levenberg and Marquardt's method with less weight on outliers."""
    damping, value = 1e-2, residuals(x)
    cost_now = _loss(value)
    for _ in range(rounds):
        weight = 1 / np.sqrt(1 + (value / _SCALE) ** 2)
        slope = _slopes(residuals, x, value)
        normal, pull = slope.T @ (slope * weight[:, None]), slope.T @ (value * weight)
        for _ in range(8):
            try:
                step = np.linalg.solve(
                    normal + damping * (np.diag(np.diag(normal)) + 1e-9 * np.eye(len(x))), -pull
                )
            except np.linalg.LinAlgError:  # times so far apart that no step can be computed
                return x
            trial = x + np.clip(step, -0.5, 0.5)
            trial_value = residuals(trial)
            if _loss(trial_value) < cost_now:
                break
            damping *= 4
        else:
            return x
        gain = cost_now - _loss(trial_value)
        x, value, cost_now, damping = trial, trial_value, _loss(trial_value), damping / 4
        if gain < 1e-7 * cost_now:
            return x
    return x


def _loss(value: F64) -> float:
    return float(np.sum(np.sqrt(1 + (value / _SCALE) ** 2) - 1))


def _slopes(residuals: Callable[[F64], F64], x: F64, value: F64) -> F64:
    columns = []
    for i in range(len(x)):
        moved = x.copy()
        moved[i] += 1e-4
        columns.append((residuals(moved) - value) / 1e-4)
    return np.stack(columns, 1)
