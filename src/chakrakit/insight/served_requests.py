"""Runs that `chakra serve` wrote: where requests spend time, and why they take longer in another run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.rank import Cell, RankView, Table, rank_views
from chakrakit.machines.residuals import served_intervals
from chakrakit.results import Result, Spread, spread, spread_of_any
from chakrakit.trace.sets import Run

FEATURES = ("steps", "decodes", "prompt tokens", "context")
"""What the time of a step depends on: a constant per step, and the three sizes of its batch."""


def is_served(run: Run) -> bool:
    """Whether a run's ranks are engines that served requests."""
    return bool(run.ranks) and bool(run.card.settings.get("engines"))


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineRows:
    """The steps of one engine, sorted by end, and its requests, sorted by number; times in milliseconds."""

    rank: int
    start: F64
    end: F64
    batch: I64
    features: F64
    """One row per step, one column per feature."""
    request: I64
    arrival: F64
    scheduled: F64
    first: F64
    finish: F64
    prompt: I64
    output: I64

    def own(self) -> F64:
        """The time of each step; where it overlaps the step before, only what follows that step's end."""
        since = np.diff(self.end, prepend=-np.inf)
        return np.minimum(self.end - self.start, since)

    def sums(self, begin: F64, end: F64) -> tuple[F64, F64]:
        """For each stretch of time, the summed own time and features of the steps that end in it."""
        at = [np.searchsorted(self.end, when, side="right") for when in (begin, end)]
        own_ms = np.concatenate([[0.0], np.cumsum(self.own())])
        features = np.concatenate([np.zeros((1, len(FEATURES))), np.cumsum(self.features, axis=0)])
        return own_ms[at[1]] - own_ms[at[0]], features[at[1]] - features[at[0]]


def engine_rows(run: Run) -> list[EngineRows]:
    """The engines of a run; `is_served(run)` must be true."""
    return [_rows(view) for view in rank_views(run)]


def _rows(view: RankView) -> EngineRows:
    trace = view.trace

    columns = set(trace.table.column_names)

    def column(name: str) -> I64:
        if name not in columns:  # an engine for prompts only ends no request
            return np.full(len(trace), -1, np.int64)
        return trace.column(name, -1).astype(np.int64)

    start, end = view.start / 1e6, view.end / 1e6
    steps = np.flatnonzero(column("batch_tokens") >= 0)
    steps = steps[np.argsort(end[steps], kind="stable")]
    tokens, prompts, context = (
        column(n)[steps] for n in ("batch_tokens", "batch_prompt_tokens", "batch_context")
    )
    names = np.array(trace.names.to_pylist(), object)
    request = column("request")
    parts = []
    for name in ("queued", "prompt", "output"):
        at = np.flatnonzero((names == name) & (request >= 0))
        parts.append(at[np.argsort(request[at], kind="stable")])
    queued, prompt, output = parts
    return EngineRows(
        rank=view.rank,
        start=start[steps],
        end=end[steps],
        batch=column("batch_requests")[steps],
        features=np.stack([np.ones(len(steps)), tokens - prompts, prompts, context], axis=1).astype(
            np.float64
        ),
        request=request[queued],
        arrival=start[queued],
        scheduled=end[queued],
        first=end[prompt],
        finish=end[output],
        prompt=column("request_prompt")[queued],
        output=column("request_output")[queued],
    )


# --- where requests spend their time, and what the engines do meanwhile -----------------------------

_DRAWN_REQUESTS = 120
"""Requests drawn one per lane: about three screens of them."""
_LISTED_SLOWEST = 10
"""Slowest requests that a result lists."""
_DRAWN_MOMENTS = 400
"""Moments of an engine's curves: about one for every two pixels of a chart 900 wide."""
_LEAST_MS = 1e-6
"""A nanosecond, the resolution of times; smaller parts are rounding."""
_FULL_CACHE = 0.95
"""The share of its capacity from which a cache counts as full: a request needs several blocks."""


class RequestFacts(Result, msgspec.Struct, frozen=True):
    """One request; times in milliseconds since the stream's first arrival."""

    request: int
    engine: int
    arrival_ms: float
    scheduled_ms: float
    first_ms: float
    finish_ms: float
    prompt: int
    output: int


class Phase(Result, msgspec.Struct, frozen=True):
    """The prompt or output of the mean request: time in and between steps, and what the steps held."""

    ms: float
    steps_ms: float
    between_ms: float
    features: dict[str, float]
    """Sums over the steps, by name in FEATURES."""


class EngineFacts(Result, msgspec.Struct, frozen=True):
    """What one engine did; times in milliseconds."""

    engine: int
    requests: int
    steps: int
    step_ms: float
    busy: float
    mean_batch: float
    cache_capacity: int
    """Tokens; 0 where the run does not say."""
    cache_peak: int
    cache_mean: float
    waiting_mean: float
    """Requests in its queue on average over the time of the stream: what they waited, added up, over that."""
    waits: dict[str, float]
    """What requests in the queue waited for, as shares of the waiting time that sum to 1."""
    over_time: list[tuple[float, int, int, int]]
    """(ms, tokens in the cache, requests in the batch, requests in the queue), thinned out."""


class ServingFacts(Result, msgspec.Struct, frozen=True):
    """The facts of a served stream. `parts` are those of the mean request and sum to the mean of `e2e_ms`."""

    requests: int
    ttft_ms: Spread
    tpot_ms: Spread | None
    """None where no request had a second token."""
    e2e_ms: Spread
    queue_ms: Spread
    parts: dict[str, float]
    prompt: Phase
    output: Phase
    step_model: dict[str, float]
    """Milliseconds of a step for each of its features, by least squares over all steps."""
    engines: list[EngineFacts]
    slowest: list[RequestFacts]
    shown: list[RequestFacts]
    """Requests spread over the whole stream, for drawing."""
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    """90 % intervals of the means and percentiles of three figures, where runs were published."""

    def waits(self) -> dict[str, float]:
        """How many requests waited for each cause on average, over the queues of all engines."""
        waits: dict[str, float] = {}
        for engine in self.engines:
            for cause, share in engine.waits.items():
                waits[cause] = waits.get(cause, 0.0) + share * engine.waiting_mean
        return waits

    def tables(self) -> list[Table]:
        """The facts as tables for people."""
        times = {
            "to the first token": self.ttft_ms,
            "per output token": self.tpot_ms,
            "end to end": self.e2e_ms,
            "in the queue": self.queue_ms,
        }
        rows: list[tuple[Cell, ...]] = [
            (name, *(round(v, 3) for v in (s.mean, s.p50, s.p90, s.p95, s.p99)))
            for name, s in times.items()
            if s is not None
        ]
        return [
            Table.of(
                f"{self.requests:,} requests, ms", ("", "mean", "p50", "p90", "p95", "p99"), rows
            ),
            self._parts(),
            self._engines(),
            self._slowest(),
        ]

    def _parts(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for name, phase in (("queued", None), ("prompt", self.prompt), ("output", self.output)):
            share = round(100 * self.parts[name] / max(self.e2e_ms.mean, 1e-12), 1)
            inside = (
                ("", "")
                if phase is None
                else (round(phase.steps_ms, 3), round(phase.between_ms, 3))
            )
            rows.append((name, round(self.parts[name], 3), share, *inside))
        return Table.of(
            "the mean request", ("part", "ms", "%", "in steps ms", "between steps ms"), rows
        )

    def _engines(self) -> Table:
        rows = [
            (
                e.engine,
                e.requests,
                e.steps,
                round(e.step_ms, 3),
                round(100 * e.busy, 1),
                round(e.mean_batch, 1),
                e.cache_peak,
                e.cache_capacity or "",
                round(e.waiting_mean, 2),
                ", ".join(f"{k} {v:.0%}" for k, v in e.waits.items()),
            )
            for e in self.engines
        ]
        head = ("engine", "requests", "steps", "step ms", "busy %", "batch", "cache peak tokens")
        more = ("capacity", "in queue", "waiting for")
        return Table.of("engines", (*head, *more), rows)

    def _slowest(self) -> Table:
        rows = [
            (
                r.request,
                r.engine,
                r.prompt,
                r.output,
                round(r.scheduled_ms - r.arrival_ms, 3),
                round(r.first_ms - r.scheduled_ms, 3),
                round(r.finish_ms - r.first_ms, 3),
            )
            for r in self.slowest
        ]
        head = ("request", "engine", "prompt tokens", "output tokens")
        return Table.of("slowest requests", (*head, "queued ms", "prompt ms", "output ms"), rows)


def serving_facts(run: Run) -> ServingFacts | None:
    """The facts of a run that served requests; None for other runs."""
    if not is_served(run):
        return None
    engines = engine_rows(run)
    names = ("arrival", "scheduled", "first", "finish", "output")
    every = [np.concatenate([getattr(e, n) for e in engines]) for n in names]
    arrival, scheduled, first, finish, output = every
    several = output > 1
    tpot = (finish - first)[several] / np.maximum(output[several] - 1, 1)
    parts = {"queued": scheduled - arrival, "prompt": first - scheduled, "output": finish - first}
    origin = float(arrival.min()) if len(arrival) else 0.0
    length = max(float(finish.max()) - origin if len(finish) else 0.0, 1e-12)
    rows = _requests(engines, origin)
    slow = sorted(rows, key=lambda r: r.arrival_ms - r.finish_ms)[:_LISTED_SLOWEST]
    every_nth = max(1, -(-len(rows) // _DRAWN_REQUESTS))
    queues = _queues(run, engines)
    times: dict[str, Any] = {
        "ttft_ms": spread(first - arrival),
        "tpot_ms": spread_of_any(tpot),
        "e2e_ms": spread(finish - arrival),
    }
    return ServingFacts(
        requests=len(arrival),
        **times,
        queue_ms=spread(scheduled - arrival),
        parts={n: float(v.mean()) if len(v) else 0.0 for n, v in parts.items()},
        prompt=_phase(engines, "scheduled", "first"),
        output=_phase(engines, "first", "finish"),
        step_model=_step_model(engines),
        engines=[
            _engine(run, e, origin, length, queue) for e, queue in zip(engines, queues, strict=True)
        ],
        slowest=slow,
        shown=sorted(rows, key=lambda r: r.arrival_ms)[::every_nth],
        intervals=_intervals(run, times),
    )


def _intervals(
    run: Run, times: dict[str, Spread | None]
) -> dict[str, dict[str, tuple[float, float]]]:
    """What published runs of the engine on the machine say; nothing of clusters that nobody has measured."""
    machine, engine = (run.card.settings.get(name) for name in ("machine", "engine"))
    name = engine.get("name") if isinstance(engine, dict) else None
    if not isinstance(machine, str) or not isinstance(name, str):
        return {}
    figures = {figure: msgspec.structs.asdict(s) for figure, s in times.items() if s is not None}
    return served_intervals(machine, name, figures)


def _requests(engines: list[EngineRows], origin: float) -> list[RequestFacts]:
    requests = []
    for e in engines:
        times = [(t - origin).tolist() for t in (e.arrival, e.scheduled, e.first, e.finish)]
        sizes = (e.request.tolist(), *times, e.prompt.tolist(), e.output.tolist())
        requests += [RequestFacts(r, e.rank, *more) for r, *more in zip(*sizes, strict=True)]
    return requests


def _phase(engines: list[EngineRows], begin: str, end: str) -> Phase:
    length, own_ms, features = [], [], []
    for e in engines:
        first, last = getattr(e, begin), getattr(e, end)
        steps, sizes = e.sums(first, last)
        length.append(last - first)
        own_ms.append(steps)
        features.append(sizes)
    whole, inside = (
        float(np.concatenate(x).mean()) if sum(map(len, x)) else 0.0 for x in (length, own_ms)
    )
    sums = np.concatenate(features).mean(axis=0) if whole else np.zeros(len(FEATURES))
    return Phase(whole, inside, whole - inside, dict(zip(FEATURES, sums.tolist(), strict=True)))


def _step_model(engines: list[EngineRows]) -> dict[str, float]:
    """Milliseconds of a step per feature, by least squares; features that would save time are dropped."""
    features = np.concatenate([e.features for e in engines])
    own_ms = np.concatenate([e.own() for e in engines])
    scale = np.maximum(features.max(axis=0, initial=1.0), 1.0)
    fitted = np.ones(len(FEATURES), np.bool_)
    coefficients = np.zeros(len(FEATURES))
    while fitted.any():
        coefficients[:] = 0.0
        coefficients[fitted] = np.linalg.lstsq((features / scale)[:, fitted], own_ms, rcond=None)[0]
        if (coefficients >= 0).all():
            break
        fitted &= coefficients > 0
    return dict(zip(FEATURES, (coefficients / scale).tolist(), strict=True))


def _limits(run: Run, rank: int) -> dict[str, Any]:
    """What the card says of an engine; nothing where it says nothing."""
    engines = run.card.settings.get("engines") or []
    limits: dict[str, Any] = engines[rank] if rank < len(engines) else {}
    return limits


@dataclass(frozen=True, eq=False)
class _Queue:
    """The requests that waited at some engines that are alike, from arrival until they were scheduled."""

    arrival: F64
    scheduled: F64
    engines: int
    length_ms: float
    """From the stream's first arrival to its last end."""

    @property
    def waited_ms(self) -> float:
        """How long all of them waited."""
        return float((self.scheduled - self.arrival).sum())

    @property
    def mean(self) -> float:
        """How many requests waited at one of the engines, on average over the stream."""
        return self.waited_ms / self.engines / max(self.length_ms, 1e-12)

    def behind(self, frontend_ms: float) -> _Queue:
        """The queue that requests enter when the engine's front end is done with them."""
        return replace(self, arrival=np.minimum(self.arrival + frontend_ms, self.scheduled))

    def waited_between(self, moments: F64) -> F64:
        """How long requests waited, added up, from each of these ascending moments to the next; ms."""

        def since(begin: F64) -> F64:
            ordered = np.sort(begin)
            sums = np.concatenate([[0.0], np.cumsum(ordered)])
            count = np.searchsorted(ordered, moments)
            return np.asarray(count * moments - sums[count])

        upto = since(self.arrival) - since(self.scheduled)
        upto[:1] = 0.0  # what requests waited for before is not known: they count with what follows
        return np.diff(upto, append=self.waited_ms)


def _queues(run: Run, engines: list[EngineRows]) -> list[_Queue | None]:
    """The queue of each engine; None for engines that take over what others have prefilled.

    A request says where it ended: where some engines only prefill, they share the queue of all requests.
    """
    every = [np.concatenate([getattr(e, n) for e in engines]) for n in ("arrival", "scheduled")]
    finish = np.concatenate([e.finish for e in engines])
    length = float(finish.max() - every[0].min()) if len(finish) else 0.0
    roles = [_limits(run, e.rank).get("role") for e in engines]
    shared = _Queue(every[0], every[1], max(roles.count("prefill"), 1), length)
    if "prefill" in roles:
        return [shared if role == "prefill" else None for role in roles]
    return [_Queue(e.arrival, e.scheduled, 1, length) for e in engines]


def _engine(
    run: Run, e: EngineRows, origin: float, length: float, queue: _Queue | None
) -> EngineFacts:
    limits, series = _limits(run, e.rank), _series(run, e.rank)
    every = max(1, -(-len(series) // _DRAWN_MOMENTS))
    lasted = np.diff(series[:, 0], append=series[-1:, 0])
    weight = lasted / max(lasted.sum(), 1e-12)
    frontend = float(limits.get("frontend_ms", 0.0))
    behind = queue.behind(frontend) if queue else None
    waited = behind.waited_between(series[:, 0]) if behind else series[:, 3] * lasted
    before = queue.waited_ms - behind.waited_ms if queue and behind else 0.0
    return EngineFacts(
        engine=e.rank,
        requests=len(e.request),
        steps=len(e.end),
        step_ms=float((e.end - e.start).mean()) if len(e.end) else 0.0,
        busy=float(e.own().sum()) / length,
        mean_batch=float(e.batch.mean()) if len(e.batch) else 0.0,
        cache_capacity=int(limits.get("kv_capacity_tokens", 0)),
        cache_peak=int(limits.get("kv_peak_tokens", series[:, 1].max(initial=0))),
        cache_mean=float((series[:, 1] * weight).sum()),
        waiting_mean=queue.mean if queue else float((series[:, 3] * weight).sum()),
        waits=_waits(series, waited, before, limits),
        over_time=[(t - origin, int(c), int(b), int(w)) for t, c, b, w in series[::every].tolist()],
    )


def _series(run: Run, rank: int) -> F64:
    """Rows of (ms, tokens in the cache, requests in the batch, requests in the queue) over time."""
    by_name = {s.name: s for s in run.counters.series(rank)}
    names = ("kv cache", "batch", "queue depth waiting")
    if any(name not in by_name for name in names):
        return np.zeros((0, 4))
    return np.stack([by_name[names[0]].time_ns / 1e6, *(by_name[n].value for n in names)], axis=1)


def _waits(series: F64, waited: F64, frontend: float, limits: dict[str, Any]) -> dict[str, float]:
    """What requests waited for, as shares of what they waited at the front end and after each moment."""
    whole = float(waited.sum()) + frontend
    if not whole:
        return {}
    capacity, most = limits.get("kv_capacity_tokens"), limits.get("max_requests")
    full: Mask = (
        series[:, 1] >= _FULL_CACHE * capacity if capacity else np.zeros(len(series), np.bool_)
    )
    batch_full: Mask = series[:, 2] >= most if most else np.zeros(len(series), np.bool_)
    shares = {
        "the engine's front end": frontend,
        "room in the cache": waited[full].sum(),
        "a place in the batch": waited[~full & batch_full].sum(),
        "the next step and its tokens": waited[~full & ~batch_full].sum(),
    }
    return {name: float(v / whole) for name, v in shares.items() if v > _LEAST_MS}


# --- why requests take longer in one run than in another --------------------------------------------
#
# The mean request's time is its time in the queue, its prompt and its output. The latter two are spent in
# steps and between them. A step's time is roughly a linear function of what it holds. What A's steps would
# take with B's batches separates the cost of larger batches from that of slower steps. Steps are slower if
# B's function is above A's for the batches of both; the rest is what a linear function leaves over. The parts
# sum to the whole difference.


_BATCH_WORDS = {
    "steps": ("more steps", "fewer steps"),
    "decodes": ("more requests in its steps", "fewer requests in its steps"),
    "prompt tokens": ("more prompt tokens in its steps", "fewer prompt tokens in its steps"),
    "context": ("longer contexts in its steps", "shorter contexts in its steps"),
}


class TimePart(Result, msgspec.Struct, frozen=True):
    """A part of the change of the mean request's time, positive where B takes longer."""

    what: str
    delta_ms: float


class ServingChange(Result, msgspec.Struct, frozen=True):
    """The mean request on both sides. `parts` by phase and `explained` by cause both sum to the change."""

    a_ms: float
    b_ms: float
    parts: dict[str, float]
    explained: list[TimePart]
    figures: dict[str, tuple[float, float]]
    sentence: str

    def tables(self) -> list[Table]:
        """The change as tables for people, the explanation first."""
        change = self.b_ms - self.a_ms
        whole = max(abs(change), 1e-12)
        title = f"request {self.a_ms:,.1f} → {self.b_ms:,.1f} ms on average: {self.sentence}"
        rows = [
            (p.what, round(p.delta_ms, 3), round(100 * p.delta_ms / whole, 1))
            for p in self.explained
        ]
        figures = [(n, round(a, 3), round(b, 3)) for n, (a, b) in self.figures.items()]
        return [
            Table.of(title, ("explained by", "ms", "% of it"), rows),
            Table.of("requests and engines", ("", "A", "B"), figures),
        ]


def serving_change(a: ServingFacts | None, b: ServingFacts | None) -> ServingChange | None:
    """Why B's requests take longer or shorter than A's; None unless both are served streams."""
    if a is None or b is None:
        return None
    parts = {name: b.parts[name] - a.parts[name] for name in a.parts}
    causes = [TimePart("waiting in the queue", parts["queued"])]
    for name in ("prompt", "output"):
        models = a.step_model, b.step_model
        causes += _change_phase(name, getattr(a, name), getattr(b, name), *models)
    causes = sorted(
        (p for p in causes if abs(p.delta_ms) > _LEAST_MS), key=lambda p: -abs(p.delta_ms)
    )
    return ServingChange(
        a.e2e_ms.mean, b.e2e_ms.mean, parts, causes, _figures(a, b), _sentence(a, b, causes)
    )


def _change_phase(
    name: str, a: Phase, b: Phase, model: dict[str, float], model_b: dict[str, float]
) -> list[TimePart]:
    """The change of a phase: other batches at A's speed, B's speed, what is left over, time between steps."""
    batches = {
        feature: model[feature] * (b.features[feature] - a.features[feature]) for feature in model
    }
    with_a, with_b = (
        sum((model_b[f] - model[f]) * phase.features[f] for f in model) for phase in (a, b)
    )
    speed = with_b if with_a * with_b > 0 else 0.0
    left = b.steps_ms - a.steps_ms - sum(batches.values()) - speed
    between = b.between_ms - a.between_ms
    return [
        *(TimePart(f"{name}: {_BATCH_WORDS[f][ms < 0]}", ms) for f, ms in batches.items()),
        TimePart(f"{name}: {'slower' if speed > 0 else 'faster'} steps with the same batch", speed),
        TimePart(f"{name}: not explained by what its steps hold", left),
        TimePart(f"{name}: {'more' if between > 0 else 'less'} time between steps", between),
    ]


def _longer(delta: float) -> str:
    return "longer" if delta > 0 else "shorter"


def _figures(a: ServingFacts, b: ServingFacts) -> dict[str, tuple[float, float]]:
    figures = {name: (read(a), read(b)) for name, read in _FIGURES.items()}
    return {
        name: (float(before), float(after))
        for name, (before, after) in figures.items()
        if before is not None and after is not None
    }


def _weighted(s: ServingFacts, name: str) -> float:
    steps = max(sum(e.steps for e in s.engines), 1)
    return float(sum(getattr(e, name) * e.steps for e in s.engines) / steps)


_FIGURES: dict[str, Callable[[ServingFacts], float | None]] = {
    "time to first token ms": lambda s: s.ttft_ms.mean,
    "time per output token ms": lambda s: s.tpot_ms.mean if s.tpot_ms else None,
    "queued ms": lambda s: s.queue_ms.mean,
    "engines": lambda s: len(s.engines),
    "steps": lambda s: sum(e.steps for e in s.engines),
    "step ms": lambda s: _weighted(s, "step_ms"),
    "batch": lambda s: _weighted(s, "mean_batch"),
    "busy": lambda s: sum(e.busy for e in s.engines) / max(len(s.engines), 1),
    "in queue": lambda s: sum(e.waiting_mean for e in s.engines),
    "cache peak tokens": lambda s: max((e.cache_peak for e in s.engines), default=0),
}


def _sentence(a: ServingFacts, b: ServingFacts, causes: list[TimePart]) -> str:
    change = b.e2e_ms.mean - a.e2e_ms.mean
    if not causes or abs(change) < 1e-9:
        return "no difference"
    same = [p for p in causes if (p.delta_ms > 0) == (change > 0)]
    most = same[0] if same else causes[0]
    sentence = f"B takes {abs(change):,.1f} ms {_longer(change)}, most of all: {most.what}"
    waits = b.waits()
    if most.what == "waiting in the queue" and change > 0 and waits:
        sentence += f" (for {max(waits, key=lambda n: waits[n])})"
    return sentence
