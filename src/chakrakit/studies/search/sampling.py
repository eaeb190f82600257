"""Searching a space too large to look at all of it, with Optuna."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chakrakit.errors import MissingExtra
from chakrakit.studies.search.searcher import Searcher
from chakrakit.studies.search.space import Space, workload_of
from chakrakit.workloads.description import Model, Step

_WORSE = 10.0
"""How much worse than the best a plan counts that cannot be, or does not fit."""


def sample(
    searcher: Searcher,
    space: Space,
    model: Model,
    step: Step,
    trials: int,
    progress: Callable[[int, int], None],
) -> int:
    """Tries plans that a tree of Parzen estimators proposes; returns how many different ones there were.

    A plan whose bound is above the best counts with its bound and is not simulated. The sampler is
    seeded, so the same search gives the same answer.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtra("a search of so many plans", "search") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values: dict[tuple[Any, ...], float] = {}

    def value(trial: Any) -> float:
        choice = {name: trial.suggest_categorical(name, of) for name, of in space.axes().items()}
        key = tuple(choice.values())
        if key not in values:
            values[key] = _value(searcher, choice, space, model, step)
        progress(trial.number + 1, trials)
        return values[key]

    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=max(20, trials // 5))
    optuna.create_study(sampler=sampler).optimize(value, n_trials=trials)
    return sum(v < float("inf") for v in values.values())


def _value(
    searcher: Searcher, choice: dict[str, Any], space: Space, model: Model, step: Step
) -> float:
    workload = workload_of(choice, space, model, step)
    if workload is None:
        return float("inf")
    if not searcher.fits(workload):
        return _WORSE * searcher.least(workload)
    bound = searcher.bound(workload)
    if bound >= searcher.limit():
        return bound
    return searcher.evaluate(workload).result.value
