"""Converts a served stream to a Run, with one rank per engine, or a window of it to traces of operators.

In the Run, steps lie on the engine's stream. A request is three host nodes on a lane of its own: waiting,
its prompt until the first token, and its output. Cache, batch and queue over time are counters.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.serving.cluster import PoolSetup
from chakrakit.serving.results.figures import ServedRun
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import Card, Run, Times, TraceSet, run_of
from chakrakit.trace.storage import write_with_requests
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import (
    CacheMove,
    EngineSteps,
    Iteration,
    RequestPiece,
    SteppedEngines,
)

KINDS = np.array(["decode", "prefill", "mixed"], object)
PARTS = ("queued", "prompt", "output")


def write_run(served: ServedRun, path: Path, card: dict[str, Any]) -> None:
    """Writes RUN and RUN/requests.parquet."""
    write_with_requests(engine_run(served, card), path, served.requests_table())


def engine_run(served: ServedRun, card: dict[str, Any]) -> Run:
    """The Run of a served stream, with engines as ranks; its card says what limits each of them."""
    pools = [pool for pool in served.setup.pools for _ in range(pool.engines)]
    limits = [_limits(pool, of) for pool, of in zip(pools, served.outcome.totals, strict=True)]
    count = len(limits)
    card = {**card, "settings": {**card.get("settings", {}), "engines": limits}}
    bodies, times = [], {}
    for engine in range(count):
        trace, engine_times = _engine(served, engine)
        bodies.append(trace)
        times[engine] = engine_times
    traces = TraceSet(bodies, {e: Binding(e) for e in range(count)}, Groups({}), Card(**card))
    return run_of(traces, times, _counters(served), tick_ps=1, kind="run")


def _limits(pool: PoolSetup, totals: dict[str, Any]) -> dict[str, Any]:
    """What bounds an engine, and the most that its cache held, which is more than at the end of any step."""
    return {
        "role": pool.role,
        "kv_capacity_tokens": pool.capacity.tokens,
        "kv_peak_tokens": int(totals["peak_blocks"]) * pool.options.block_size,
        "frontend_ms": pool.options.frontend_ms,
        "token_budget": pool.options.token_budget,
        "max_requests": pool.options.max_requests,
    }


def _engine(served: ServedRun, engine: int) -> tuple[Trace, Times]:
    steps, requests = served.outcome.steps, served.outcome.requests
    mine = steps["engine"] == engine
    order = np.flatnonzero(mine)[np.argsort(steps["start"][mine], kind="stable")]
    finished = (requests["engine"] == engine) & (requests["finish"] >= 0)
    numbers = np.flatnonzero(finished)[np.argsort(requests["arrival"][finished], kind="stable")]
    moments = [requests[n][numbers] for n in ("arrival", "scheduled", "first", "finish")]
    n, k = len(order), len(numbers)
    start = np.concatenate([steps["start"][order], *moments[:3]])
    end = np.concatenate([steps["end"][order], *moments[1:]])
    tid = lanes(moments[0], moments[3]) + 1
    tokens, prompts = steps["tokens"][order], steps["prompt_tokens"][order]
    kind = np.where(prompts == 0, 0, np.where(prompts == tokens, 1, 2))
    host = np.arange(n + 3 * k) >= n
    columns: dict[str, Any] = {
        "name": [*KINDS[kind].tolist(), *(part for part in PARTS for _ in range(k))],
        "type": np.full(n + 3 * k, NodeType.COMP_NODE),
        "is_cpu_op": host,
        "stream": _only(np.zeros(n, np.int64), ~host),
        "tid": _only(np.tile(tid, 3), host),
        "request": _only(np.tile(numbers, 3), host),
        "request_prompt": _only(np.tile(served.setup.stream.prompt[numbers], 3), host),
        "request_output": _only(np.tile(served.setup.stream.output[numbers], 3), host),
        "batch_tokens": _only(tokens, ~host),
        "batch_prompt_tokens": _only(prompts, ~host),
        "batch_requests": _only(steps["requests"][order], ~host),
        "batch_context": _only(steps["context"][order], ~host),
    }
    return Trace.from_columns(columns, edges=_edges(n, k)), Times(start, end)


def lanes(start: I64, end: I64) -> I64:
    """A lane for each interval, on the fewest lanes without overlaps; intervals are sorted by start."""
    lane_of = np.zeros(len(start), np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for i, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last, lane))
        lane_of[i] = lane
    return lane_of


def _only(values: I64, where: Mask) -> pa.Array:
    """A column with these values on the marked rows and null on the others."""
    full = np.zeros(len(where), np.int64)
    full[where] = values
    return pa.array(full, mask=~where)


def _edges(steps: int, requests: int) -> Edges:
    """Edges from step to step, and between a request's three parts."""
    chain = np.arange(max(steps - 1, 0))
    first = steps + np.arange(2 * requests)
    src = np.concatenate([chain, first]).astype(np.int32)
    dst = np.concatenate([chain + 1, first + requests]).astype(np.int32)
    kind = np.where(np.arange(len(src)) < len(chain), EdgeKind.STREAM, EdgeKind.THREAD)
    size = len(src)
    return Edges(
        src,
        dst,
        kind.astype(np.int8),
        np.full(size, EdgeForm.FINISH_START, np.int8),
        np.zeros(size, np.int64),
        kind == EdgeKind.THREAD,
    )


def _counters(served: ServedRun) -> dict[str, dict[str, I64]]:
    """Cache, batch and queue of each engine when its steps end."""
    steps = served.outcome.steps
    sizes = np.concatenate(
        [np.full(pool.engines, pool.options.block_size) for pool in served.setup.pools]
    )
    at = {"rank": steps["engine"], "time_ns": steps["end"] // 1000}
    return {
        "kv_cache": {**at, "tokens": steps["blocks"] * sizes[steps["engine"]]},
        "batch": {**at, "requests": steps["requests"]},
        "queue_depth": {
            **at,
            "depth": steps["waiting"],
            "queue": np.full(len(steps["end"]), "waiting", object),
        },
    }


# --- a step or a window as operators ------------------------------------------------------------
#
# Steps follow each other without the gaps between them. What they compute, and the caches that move
# between engines, are those of the run; the simulator then shares links among engines and caches.


MOST_STEPS = 2000
"""Steps of one expansion; each has about ten operators per layer, so that 80 layers make 1.6 million."""


def window_of(text: str, served_steps: int) -> tuple[float, float] | int:
    """The window of a text: seconds of `10:12`, or the number of `step:N`."""
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


def expanded(served: ServedRun, plans: list[Plan], model: Decoder, step: Step) -> TraceSet:
    """The recorded window as traces. `plans` has one for each engine."""
    iterations, places = _iterations(served, len(plans))
    engines = [
        EngineSteps(plan, of_engine) for plan, of_engine in zip(plans, iterations, strict=True)
    ]
    count = sum(len(of_engine) for of_engine in iterations)
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
"""The places of a request's steps in the engine's iterations, by (engine, request)."""


def _iterations(served: ServedRun, engines: int) -> tuple[list[list[Iteration]], Places]:
    steps, pieces = served.outcome.steps, served.outcome.pieces
    by_engine: list[list[Iteration]] = [[] for _ in range(engines)]
    places: Places = defaultdict(list)
    order = np.argsort(pieces["step"], kind="stable")
    numbers, starts = np.unique(pieces["step"][order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)][: len(starts)]
    for number, first, last in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
        engine = int(steps["engine"][number])
        rows = order[first:last]
        batch = [_piece(pieces, i) for i in rows.tolist()]
        for piece in batch:
            places[engine, piece.request].append(len(by_engine[engine]))
        by_engine[engine].append(Iteration(tuple(batch)))
    return by_engine, places


def _piece(pieces: Columns, i: int) -> RequestPiece:
    request, tokens, context = (int(pieces[n][i]) for n in ("request", "tokens", "context"))
    return RequestPiece(request, tokens, context, bool(pieces["gives"][i]))


def _moves(served: ServedRun, places: Places) -> list[CacheMove]:
    """The cache moves with both ends in the window."""
    moves, prompt = served.outcome.moves, served.setup.stream.prompt
    cache_moves = []
    for request, source, target in zip(
        *(moves[n].tolist() for n in ("request", "source", "target")), strict=True
    ):
        source_steps, target_steps = places.get((source, request)), places.get((target, request))
        if source_steps and target_steps:
            cache_moves.append(
                CacheMove(
                    request, int(prompt[request]), source, source_steps[-1], target, target_steps[0]
                )
            )
    return cache_moves
