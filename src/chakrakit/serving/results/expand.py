"""A step, or a window of a served stream, as operators: the traces of every engine in it.

Steps follow each other without the gaps between them; what they compute, and the caches that move
between engines, are those of the run. The simulator then shares links among engines and caches.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.serving.results.figures import Served
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import CacheMove, EngineSteps, Iteration, Piece, SteppedEngines

MOST_STEPS = 2000
"""Steps that one expansion may have; each is some ten operators a layer."""


def window_of(text: str, served_steps: int) -> tuple[float, float] | int:
    """`10:12` in seconds, or `step:N`."""
    first, colon, last = text.partition(":")
    try:
        if first == "step" and colon:
            number = int(last)
            if not 0 <= number < max(1, served_steps):
                raise ConfigError(f"--expand {text}: the run has {served_steps:,} steps")
            return number
        start, end = float(first), float(last)
    except ValueError:
        raise ConfigError(f"--expand {text}: give FROM:TO in seconds, or step:N") from None
    if not 0 <= start < end:
        raise ConfigError(f"--expand {text}: the window is empty")
    return start, end


def expanded(served: Served, plans: list[Plan], model: Decoder, step: Step) -> TraceSet:
    """The recorded window as traces. `plans` has one for each engine."""
    iterations, places = _iterations(served, len(plans))
    engines = [EngineSteps(plan, own) for plan, own in zip(plans, iterations, strict=True)]
    count = sum(len(own) for own in iterations)
    if not count:
        raise ConfigError("--expand: no step starts in that window")
    if count > MOST_STEPS:
        raise ConfigError(
            f"--expand: {count:,} steps start in that window; at most {MOST_STEPS:,} are written"
        )
    workload = Workload(model=model, plan=plans[0], step=step)
    return SteppedEngines(workload, engines, _moves(served, places)).traces()


Columns = dict[str, I64]
Places = dict[tuple[int, int], list[int]]
"""(engine, request) → the places of its steps in the engine's iterations."""


def _iterations(served: Served, engines: int) -> tuple[list[list[Iteration]], Places]:
    steps, pieces = served.outcome.steps, served.outcome.pieces
    found: list[list[Iteration]] = [[] for _ in range(engines)]
    places: Places = defaultdict(list)
    order = np.argsort(pieces["step"], kind="stable")
    numbers, starts = np.unique(pieces["step"][order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)][: len(starts)]
    for number, first, last in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
        engine = int(steps["engine"][number])
        rows = order[first:last]
        own = [_piece(pieces, i) for i in rows.tolist()]
        for piece in own:
            places[engine, piece.request].append(len(found[engine]))
        found[engine].append(Iteration(tuple(own)))
    return found, places


def _piece(pieces: Columns, i: int) -> Piece:
    request, tokens, context = (int(pieces[n][i]) for n in ("request", "tokens", "context"))
    return Piece(request, tokens, context, bool(pieces["gives"][i]))


def _moves(served: Served, places: Places) -> list[CacheMove]:
    """Moves whose both ends are in the window."""
    moves, prompt = served.outcome.moves, served.setup.stream.prompt
    found = []
    for request, source, target in zip(
        *(moves[n].tolist() for n in ("request", "source", "target")), strict=True
    ):
        sent, used = places.get((source, request)), places.get((target, request))
        if sent and used:
            found.append(
                CacheMove(request, int(prompt[request]), source, sent[-1], target, used[0])
            )
    return found
