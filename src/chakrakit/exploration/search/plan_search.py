"""The best plan of a model on a machine: bounds first, simulation where they cannot decide.

Plans are taken in the order of what they need at least. A plan is simulated only while its bound is
below the best simulated ones, so the answer is the best of the whole space and most of it is never run.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.exploration.search.searcher import (
    Evaluated,
    Name,
    PlanResult,
    Ranked,
    Searcher,
    objective_of,
    shares,
    why,
)
from chakrakit.exploration.search.space import refusals, sample, space_of, workloads
from chakrakit.machines import load_machine, parse_name
from chakrakit.machines.residuals import difference, interval_in
from chakrakit.parallel import Progress, quiet
from chakrakit.results import Bars, three_digits
from chakrakit.workloads.description import Model, Step, Workload
from chakrakit.workloads.generate import ModelFigures, model_figures

MOST = 20_000
"""The most combinations of an exhaustive search, each of which gets at least a lower bound."""
_BEYOND = 30
"""How many plans that just do not fit get a bound, to say what more memory would give."""

Method = Literal["auto", "exhaustive", "sampled", "optuna"]
"""`optuna` is what `sampled` was called while that package did it."""


class SearchResult(Ranked, msgspec.Struct, kw_only=True):
    """What `chakra search --json` prints."""

    best: PlanResult
    runners_up: list[PlanResult]
    """The next best plans, and plans that would be better if they fitted."""
    evaluated: int
    """Plans that were simulated."""
    pruned: int
    """Plans that were not: their bound, or their memory, decided."""
    over_memory: int
    """Of those pruned, the ones that were found not to fit."""
    machine: str
    objective: str
    method: str
    configurations: list[str] = []
    """What was written for frameworks, and what of the plan each cannot say."""
    model: ModelFigures | None = None
    """The model, and the precision in which it is trained."""
    stopped: bool = False
    """Whether it was interrupted: the best of what had been looked at by then."""

    def picture(self) -> Bars:
        """The plans' steps."""
        plans = [(p.spelled, p.step_ns, f"{p.step_ns / 1e6:,.1f} ms") for p in self.table_rows()]
        return Bars(f"steps on {self.machine}, by {self.objective}", plans)


def search(
    model: Model,
    step: Step,
    gpus: Sequence[int],
    machine: str,
    *,
    objective: Name = "step",
    fixed: Mapping[str, Sequence[Any]] | None = None,
    compute: str = "auto",
    price_per_hour: float | None = None,
    method: Method = "auto",
    trials: int = 300,
    runners: int = 5,
    progress: Progress = quiet,
) -> tuple[SearchResult, Workload]:
    """The best plan, what else there is, and the best plan's workload.

    `fixed` fixes axes of the space (`{"tp": [8]}`). Exhaustive search is exact; `sampled` tries
    `trials` plans, and is what `auto` takes where there are more than 20,000 combinations.
    """
    if step.kind != "train":
        raise ConfigError(f"search is for training steps; {step.kind} has no bound")
    if step.samples.batcher or step.steps != 1:
        raise ConfigError("search is for one step of equal sequences; leave out batcher and steps")
    if not gpus or min(gpus) < 1:
        raise ConfigError("gpus should be one or more numbers of 1 or more, as in 64 or 64,128")
    name = machine_for(machine, max(gpus))
    loaded = load_machine(name)
    searcher = Searcher(loaded, compute, objective_of(objective, loaded, price_per_hour))
    space = space_of(model, gpus, step, fixed or {})
    exhaustive = space.size <= MOST if method == "auto" else method == "exhaustive"
    if exhaustive:
        count, stopped = exhaust(searcher, workloads(space, model, step), runners, progress)
        if not count:
            raise ConfigError(f"no plan is feasible: {'; '.join(refusals(space, model, step)[:3])}")
    else:
        count, stopped = sample(searcher, space, model, step, trials, progress)
    best, runners_up = ranked(searcher, runners)
    result = SearchResult(
        best=best.result,
        runners_up=runners_up,
        evaluated=len(searcher.evaluated),
        pruned=count - len(searcher.evaluated),
        over_memory=len(searcher.over),
        machine=name,
        objective=objective,
        method="exhaustive" if exhaustive else "sampled",
        model=model_figures(model, step),
        stopped=stopped,
    )
    return result, best.workload


def machine_for(name: str, ranks: int) -> str:
    """A preset without a number of nodes gets as many as the ranks need; all else stays as it is."""
    preset, nodes = parse_name(name)
    if preset is None or nodes is not None or load_machine(name).size >= ranks:
        load_machine(name).check_ranks(ranks)
        return name
    each = load_machine(f"{preset}:1").size
    return f"{preset}:{-(-ranks // each)}"


_TOLD = 16
"""Plans between two counts of those that may still win; one count costs as much as a bound."""


def exhaust(
    searcher: Searcher, plans: Iterable[Workload], runners: int, progress: Progress
) -> tuple[int, bool]:
    """Finds the best of all plans, then simulates those whose bounds come next.

    Returns how many plans there are, and whether it was interrupted once a plan had been simulated.
    """
    order = itertools.count()
    queue = []
    for workload in plans:
        queue.append((searcher.least(workload), next(order), False, workload))
        progress(len(queue), None)
    heapq.heapify(queue)
    count = len(queue)
    try:
        _decide(searcher, queue, order, runners, progress)
    except KeyboardInterrupt:
        if not searcher.ranking():
            raise
        return count, True
    return count, False


def _decide(
    searcher: Searcher,
    queue: list[tuple[float, int, bool, Workload]],
    order: Iterator[int],
    runners: int,
    progress: Progress,
) -> None:
    """Simulates plans in the order of their bounds until none can win, then the runners-up."""
    looked_at, after = 0, 2 * runners
    while queue and queue[0][0] < searcher.limit():
        if looked_at % _TOLD == 0:  # counting what may still win costs as much as a bound
            undecided = sum(bound < searcher.limit() for bound, *_ in queue)
        progress(looked_at, looked_at + undecided - looked_at % _TOLD + after)
        looked_at += 1
        _, _, sharp, workload = heapq.heappop(queue)
        if sharp:
            searcher.evaluate(workload)
        elif searcher.fits(workload):
            heapq.heappush(queue, (searcher.bound(workload), next(order), True, workload))
    rest = heapq.nsmallest(after, (q for q in queue if q[2]))
    for number, (_, _, _, workload) in enumerate(rest, looked_at):
        progress(number, looked_at + len(rest))
        searcher.evaluate(workload)
    progress(looked_at + len(rest), looked_at + len(rest))


def tie_of(best: PlanResult, other: PlanResult) -> tuple[float, float] | None:
    """The interval of the difference of two steps in ns, where it could be zero; None where it could not."""
    a, b = interval_in(best), interval_in(other)
    if a is None or b is None:
        return None
    low, high = difference(a, b, other.step_ns - best.step_ns)
    return (low, high) if low <= 0 <= high else None


_OBJECTIVE_WORDS = {"price": ("dearer", "cheaper"), "energy": ("more energy", "less energy")}


def ranked(searcher: Searcher, runners: int) -> tuple[Evaluated, list[PlanResult]]:
    """The best plan, and the others with what they lost by."""
    ranking = searcher.ranking()
    if not ranking:
        raise ConfigError(_nothing_fits(searcher))
    best = ranking[0]
    best.result.why = shares(best.result.step_ns, best.result.parts)
    runners_up = [*(e.result for e in ranking[1 : 1 + runners]), *_beyond(searcher, best)]
    for result in runners_up:
        result.why = why(result.step_ns, result.parts, best.result.parts)
        if searcher.objective.name != "step":
            more = 100 * (result.value / best.result.value - 1)
            word = _OBJECTIVE_WORDS[searcher.objective.name][more < 0]
            result.why = f"{abs(more):.1f} % {word}; its step {result.why}"
        if not result.fits:
            need, room = gib(result.memory_bytes), gib(searcher.room)
            result.why = f"does not fit: needs {need}, a device has {room}; with room: {result.why}"
        elif searcher.objective.name == "step" and (apart := tie_of(best.result, result)):
            low, high = (three_digits(ns / 1e6) for ns in apart)
            result.tie = True
            result.why = (
                f"not surely slower than the best: of 100 measured differences 90 lie in {low} to {high} ms; "
                f"{result.why}"
            )
    return best, sorted(runners_up, key=lambda r: r.value)


def _beyond(searcher: Searcher, best: Evaluated) -> list[PlanResult]:
    """Of the plans that only just do not fit, the two best, if they would win."""
    near = sorted(searcher.over, key=lambda entry: entry[0])[:_BEYOND]
    bounds = sorted((searcher.bound(w), i) for i, (_, w) in enumerate(near))
    tried = [searcher.evaluate(near[i][1]) for bound, i in bounds[:2] if bound < best.result.value]
    return [e.result for e in tried if e.result.value < best.result.value]


def _nothing_fits(searcher: Searcher) -> str:
    if not searcher.over:
        return "no plan is feasible; check gpus, batch and the axes given against `chakra generate`"
    need, workload = min(searcher.over, key=lambda entry: entry[0])
    plan = workload.plan
    return (
        f"no plan fits: the smallest (tp {plan.tp}, pp {plan.pp}, {plan.data}, recompute "
        f"{plan.recompute}) needs {gib(need)} and a device of {searcher.machine.name} has "
        f"{gib(searcher.room)}; use more devices or a smaller batch"
    )


def gib(count: float) -> str:
    """Bytes in words."""
    return f"{count / 2**30:,.1f} GiB"
