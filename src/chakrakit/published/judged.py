"""Judged: what was measured, by case, side and seed, and gains made from it.

Predictions are functions of this. They see every figure of every side, and the curves of the tuning, and
answer with one number per seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np

from chakrakit.arrays import F64
from chakrakit.published.study import Case, Setting, Study

Phase = Literal["tuning", "judged", "quick"]
"""Choosing settings, judging them, or a quick run, kept to see at once whether the code still gives it."""


class Row(msgspec.Struct, frozen=True):
    """One measurement of one side."""

    phase: Phase
    case: dict[str, Any]
    side: str
    setting: dict[str, Any]
    seed: int
    figures: dict[str, float]
    error: str = ""


def key_of(values: Case | Setting) -> str:
    """A case or setting as one word; equal for equal ones."""
    return msgspec.json.encode(dict(sorted(values.items()))).decode()


class Judged:
    """Rows of a study. `where` selects cases by their fields: `batch=1`, or `batch=lambda b: b > 1`."""

    def __init__(self, study: Study, rows: Iterable[Row]) -> None:
        self.study = study
        self.rows = list(rows)
        self.cases = list({key_of(r.case): r.case for r in self.rows}.values())
        judged = [r for r in self.rows if r.phase == "judged"]
        self.seeds = sorted({r.seed for r in judged})
        self._by = {(key_of(r.case), r.side, r.seed): r for r in judged}

    def relabelled(self, names: dict[str, str]) -> Judged:
        """The same with other names of sides; sides that get another's name lose their own."""
        renamed = [r for r in self.rows if r.side in names]
        kept = [r for r in self.rows if r.side not in names and r.side not in names.values()]
        changed = [msgspec.structs.replace(r, side=names[r.side]) for r in renamed]
        return Judged(self.study, kept + changed)

    @property
    def errors(self) -> list[str]:
        """What raised, each once."""
        return list(dict.fromkeys(r.error for r in self.rows if r.error))

    def where(self, **fields: Any) -> list[Case]:
        """The cases with these fields."""
        return [c for c in self.cases if all(_fits(c.get(k), v) for k, v in fields.items())]

    def figure(self, name: str, side: str = "", **where: Any) -> F64:
        """A figure of a side (by default the idea) by case and seed; NaN where there is none."""
        side = side or self.study.idea
        values = [self._by_seed(c, side, name) for c in self.where(**where)]
        return np.array(values, float).reshape(len(values), len(self.seeds))

    def _by_seed(self, case: Case, side: str, name: str) -> list[float]:
        key = key_of(case)
        rows = (self._by.get((key, side, seed)) for seed in self.seeds)
        return [row.figures.get(name, np.nan) if row else np.nan for row in rows]

    def gains(self, over: str = "", **where: Any) -> F64:
        """How many times as good the idea is, by case and seed: above 1 where it is better.

        Over one side, or over the tuned comparator that is best in each case.
        """
        name, direction = self.study.better
        own = self.figure(name, **where)
        cases = self.where(**where)
        rivals = [over or self.against(c) for c in cases]
        other = np.array(
            [self._by_seed(c, r, name) for c, r in zip(cases, rivals, strict=True)]
        ).reshape(own.shape)
        return _ratio(other, own) if direction == "min" else _ratio(own, other)

    def against(self, case: Case) -> str:
        """The tuned comparator that is best in a case."""
        name, direction = self.study.better
        means = {s: self._mean(case, s, name) for s in self.study.comparators}
        best = min if direction == "min" else max
        return best(means, key=lambda side: means[side])

    def _mean(self, case: Case, side: str, name: str) -> float:
        return float(np.mean(self._by_seed(case, side, name)))

    def mean(self, name: str, side: str, case: Case) -> float:
        """The mean over seeds of a side's figure in one case."""
        return self._mean(case, side, name)

    def chosen(self, case: Case, side: str) -> dict[str, Any]:
        """The setting that a side chose in a case."""
        key = key_of(case)
        rows = (self._by.get((key, side, s)) for s in self.seeds)
        return next((row.setting for row in rows if row), {})

    def choices(self, key: str, side: str = "", **where: Any) -> list[Any]:
        """What a side (by default the idea) chose for one of its settings, case by case."""
        return [self.chosen(c, side or self.study.idea).get(key) for c in self.where(**where)]

    def curve(self, key: str, name: str, case: Case, side: str = "") -> dict[Any, float]:
        """Value of a setting → the best figure that tuning saw with it; the idea's by default."""
        side = side or self.study.idea
        best = min if self.study.better[1] == "min" else max
        found: dict[Any, float] = {}
        for row in self._tuning.get((key_of(case), side), []):
            value = row.figures.get(name, np.nan)
            at = row.setting.get(key)
            found[at] = best(found.get(at, value), value)
        return dict(sorted(found.items()))

    @cached_property
    def _tuning(self) -> dict[tuple[str, str], list[Row]]:
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            if row.phase == "tuning":
                found.setdefault((key_of(row.case), row.side), []).append(row)
        return found


def most(values: F64) -> F64:
    """The largest over the cases, seed by seed; of no cases NaN, which leaves a prediction untested."""
    return values.max(axis=0) if len(values) else np.full(values.shape[1], np.nan)


def least(values: F64) -> F64:
    """The smallest over the cases, seed by seed."""
    return -most(-values)


def certain(came_true: bool, seeds: int = 1) -> F64:
    """A prediction that is true or false whatever the seed."""
    return np.full(seeds, 1.0 if came_true else -1.0)


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Callable):  # type: ignore[arg-type]
        return value is not None and bool(wanted(value))
    return bool(value == wanted)


def _ratio(above: F64, below: F64) -> F64:
    """Above / below; two that are equal, infinite or nothing as they may be, are 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above == below, 1.0, above / below)
