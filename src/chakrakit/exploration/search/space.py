"""The plans to choose from: every feasible combination of degrees, batches and methods."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.exploration.search.parzen import ParzenSampler
from chakrakit.exploration.search.searcher import Searcher
from chakrakit.workloads.description import SCHEDULES, Model, Plan, Step, Workload, check
from chakrakit.workloads.program import WorkloadLayout

LONG = 16384
"""Shorter sequences are not cut (cp is 1) unless the user asks, which keeps the space small."""
LARGEST = 8
"""The most sequences of a micro-batch that is tried unasked: larger ones rarely fit, and gain little."""
_SCHEDULES = ("1f1b", "interleaved/2", "interleaved/4", "zb-h1")


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """What to choose from, by axis. A schedule of several chunks is written `interleaved/2`."""

    gpus: list[int]
    tp: list[int]
    pp: list[int]
    cp: list[int]
    ep: list[int]
    micro_batch: list[int]
    data: list[str]
    recompute: list[str]
    schedule: list[str]

    @property
    def size(self) -> int:
        """Combinations, possible or not."""
        return math.prod(len(values) for values in self.axes().values())

    def axes(self) -> dict[str, list[Any]]:
        """Values by axis."""
        return {f.name: getattr(self, f.name) for f in msgspec.structs.fields(type(self))}


_WORDS: dict[str, tuple[str, ...]] = {
    **{name: get_args(get_type_hints(Plan)[name]) for name in ("data", "recompute")},
    "schedule": tuple(SCHEDULES),
}
"""Axes of words, and the words that a plan knows."""


def _check_given(fixed: Mapping[str, Sequence[Any]], axes: Collection[str]) -> None:
    for name, values in fixed.items():
        if name not in axes:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} is for --serve; a search for a step has {', '.join(axes)}")
        for value in values:
            if name not in _WORDS:
                _check_number(name, value)
                continue
            word, _, chunks = str(value).partition("/")
            if word not in _WORDS[name]:
                raise ConfigError(f"no {name} {value!r}; {nearest(value, _WORDS[name])}")
            if chunks and not (chunks.isascii() and chunks.isdecimal() and int(chunks)):
                raise ConfigError(f"{name} {value!r}: chunks are 1 or more, as in {word}/2")


def _check_number(name: str, value: int) -> None:
    if value < 1:
        flag = name.replace("_", "-")
        raise ConfigError(f"--{flag} {value}: give 1 or more, or leave it out to try all")


def space_of(
    model: Model, gpus: Sequence[int], step: Step, fixed: Mapping[str, Sequence[Any]]
) -> Space:
    """The whole space of a model on so many devices; axes that are given are taken as they are."""
    layers, experts = getattr(model, "layers", 1), getattr(model, "experts", 0)
    degrees = sorted({d for n in gpus for d in range(1, n + 1) if n % d == 0})
    axes: dict[str, Sequence[Any]] = {
        "tp": [d for d in degrees if d <= getattr(model, "heads", 1)],
        "pp": [d for d in degrees if d <= layers],
        "cp": [d for d in degrees if d <= 16 and step.seq >= LONG] or [1],
        "ep": [d for d in degrees if experts and experts % d == 0] or [1],
        "micro_batch": [b for b in range(1, LARGEST + 1) if step.global_batch % b == 0],
        "data": ["zero1", "fsdp"] if max(gpus) > 1 else ["ddp"],
        "recompute": ["none", "selective", "full"],
        "schedule": list(_SCHEDULES),
    }
    fixed_axes = {name: values for name, values in fixed.items() if values}
    _check_given(fixed_axes, axes)
    axes |= fixed_axes
    for name, values in axes.items():
        if not values:
            raise ConfigError(f"{name} has no value to choose from; give one, such as --{name} 1")
    return Space(gpus=list(gpus), **{name: list(values) for name, values in axes.items()})


def workloads(space: Space, model: Model, step: Step) -> Iterator[Workload]:
    """Yields every feasible combination once."""
    for choice in itertools.product(*space.axes().values()):
        workload = workload_of(dict(zip(space.axes(), choice, strict=True)), space, model, step)
        if workload is not None:
            yield workload


def workload_of(
    choice: Mapping[str, Any], space: Space, model: Model, step: Step
) -> Workload | None:
    """Returns the workload of one combination; None if it is infeasible or equal to another one."""
    workload = _described(choice, space, model, step)
    return None if workload is None or _refusal(workload) else workload


def _described(
    choice: Mapping[str, Any], space: Space, model: Model, step: Step
) -> Workload | None:
    """One combination as a workload, feasible or not; None if its degrees do not fill the devices."""
    ways = choice["tp"] * choice["pp"] * choice["cp"]
    if choice["gpus"] % ways or (choice["pp"] == 1 and choice["schedule"] != space.schedule[0]):
        return None
    dp = choice["gpus"] // ways
    if dp * choice["cp"] == 1 and choice["data"] != space.data[0]:
        return None
    name, _, chunks = str(choice["schedule"]).partition("/")
    if choice["pp"] == 1:
        name, chunks = "1f1b", ""
    plan = Plan(
        dp=dp,
        tp=choice["tp"],
        pp=choice["pp"],
        cp=choice["cp"],
        ep=choice["ep"],
        data=choice["data"],
        recompute=choice["recompute"],
        schedule=name,
        chunks=int(chunks or 1),
    )
    return Workload(model=model, plan=plan, step=step.replace(micro_batch=choice["micro_batch"]))


def _refusal(workload: Workload) -> str:
    """Why a combination cannot be; "" where it can."""
    try:
        check(workload)
        WorkloadLayout(workload).schedule  # noqa: B018 - the schedule has rules of its own
    except ConfigError as refusal:
        return str(refusal)
    return ""


def refusals(space: Space, model: Model, step: Step) -> list[str]:
    """Why combinations cannot be, the commonest reasons first; at least one."""
    reasons: Counter[str] = Counter()
    for choice in itertools.product(*space.axes().values()):
        described = _described(dict(zip(space.axes(), choice, strict=True)), space, model, step)
        if described is not None and (reason := _refusal(described)):
            reasons[reason] += 1
    if not reasons:
        degrees = (
            f"--{name} {','.join(map(str, space.axes()[name]))}" for name in ("tp", "pp", "cp")
        )
        gpus = " or ".join(map(str, space.gpus))
        return [f"no product of {', '.join(degrees)} divides {gpus} devices"]
    return [reason for reason, _ in reasons.most_common()]


# --- sampling a large space ---------------------------------------------------------------------


_WORSE = 10.0
"""A plan that does not fit counts as ten times its lower bound, so that the sampler avoids its neighbours."""
_DRAWS = 50
"""Combinations that are drawn for each plan to try, at the most: in most spaces every second is feasible."""


def sample(
    searcher: Searcher,
    space: Space,
    model: Model,
    step: Step,
    trials: int,
    progress: Callable[[int, int], None],
) -> tuple[int, bool]:
    """Tries as many different plans as `trials` says, those that a Parzen estimator proposes.

    Returns how many there were, and whether it was interrupted after one was simulated.

    A plan whose bound is above the best counts with its bound and is not simulated. The sampler is
    seeded, so the same search gives the same answer.
    """
    axes = space.axes()
    sampler = ParzenSampler([len(of) for of in axes.values()], max(20, trials // 5))
    plans = 0
    try:
        for _ in range(_DRAWS * trials):
            proposed = sampler.propose()
            if proposed in sampler.tried:
                continue
            choice = {name: of[i] for (name, of), i in zip(axes.items(), proposed, strict=True)}
            sampler.tried[proposed] = _value(searcher, choice, space, model, step)
            plans += sampler.tried[proposed] < math.inf
            progress(plans, trials)
            if plans == trials:
                break
    except KeyboardInterrupt:
        if not searcher.ranking():
            raise
        return plans, True
    return plans, False


def _value(
    searcher: Searcher, choice: dict[str, Any], space: Space, model: Model, step: Step
) -> float:
    workload = workload_of(choice, space, model, step)
    if workload is None:
        return math.inf
    if not searcher.fits(workload):
        return _WORSE * searcher.least(workload)
    bound = searcher.bound(workload)
    if bound >= searcher.limit():
        return bound
    return searcher.evaluate(workload).result.value
