"""The cheapest way to serve a stream of requests within a service level.

Numbers of devices are tried from the smallest on: what costs least is what uses the fewest. At each
number every candidate is served, and given up as soon as more requests have missed the level than
may; nothing is lost by that. Of those that meet it, the one with the most room to spare is best, if it
keeps up with the stream and meets the level when the stream goes on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.exploration.search.plan_search import machine_for
from chakrakit.exploration.search.searcher import Ranked
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.parallel import Progress, quiet
from chakrakit.passes.base import head_and_inside
from chakrakit.results import Bars, Result
from chakrakit.serving import (
    MOST_COUNT,
    EngineLayout,
    ServingSession,
    batch_limits,
    is_open,
    most_requests_per_s,
    requests_per_s,
    served_on,
    serving_of,
    smallest_alike,
)
from chakrakit.serving.results import ServedRun, ServiceLevel
from chakrakit.workloads.description import Decoder
from chakrakit.workloads.generate import ModelFigures

# The ways to serve a model on some devices: parallel degrees, replicas or pools, batch limits.


BATCH_TOKENS = (2048, 8192, 16384)
BATCH_REQUESTS = (64, 256)
"""Batch limits that are tried unless the user says which; engines' defaults are among them."""
AXES = ("tp", "pp", "ep", "batch_tokens", "batch_requests", "pools")


class Candidate(msgspec.Struct, frozen=True):
    """One way: engines, and what a step of theirs may hold."""

    layout: EngineLayout
    batch_tokens: int
    batch_requests: int
    devices: int


class ServingSpace(msgspec.Struct, frozen=True):
    """What may be chosen. `pools` says whether prefill and decode are `together`, `apart`, or either."""

    tp: list[int]
    pp: list[int]
    ep: list[int]
    batch_tokens: list[int]
    batch_requests: list[int]
    pools: list[str]

    def layouts(self, devices: int) -> Iterator[EngineLayout]:
        """Every layout that uses exactly so many devices."""
        if "together" in self.pools:
            yield from self._together(devices)
        if "apart" in self.pools:
            yield from self._apart(devices)

    def _together(self, devices: int) -> Iterator[EngineLayout]:
        for tp in self.tp:
            for pp in self.pp:
                for ep in self.ep:
                    engines, unused = divmod(devices, tp * pp * ep)
                    if engines and not unused:
                        yield EngineLayout(tp=tp, pp=pp, dp=ep, ep=ep, replicas=engines)

    def _apart(self, devices: int) -> Iterator[EngineLayout]:
        """Pools of one stage: prefill engines of one size, decode engines of another."""
        for before in self.tp:
            for after in self.tp:
                for prefill in range(1, devices // before + 1):
                    decode, unused = divmod(devices - prefill * before, after)
                    if decode and not unused:
                        yield EngineLayout(
                            prefill=prefill, decode=decode, prefill_tp=before, decode_tp=after
                        )

    def candidates(self, devices: int) -> Iterator[Candidate]:
        """Every layout with every pair of batch limits."""
        for layout in self.layouts(devices):
            for tokens in self.batch_tokens:
                for requests in self.batch_requests:
                    yield Candidate(layout, tokens, requests, devices)


def serving_space(
    model: Decoder, machine: Machine, fixed: Mapping[str, Sequence[Any]]
) -> ServingSpace:
    """The space, with the axes that are given in place of what would be tried."""
    for name in fixed:
        if fixed[name] and name not in AXES:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} is not for --serve, which chooses {', '.join(AXES)}")
    for name in set(AXES) - {"pools"}:
        for value in fixed.get(name) or ():
            if not 1 <= value <= MOST_COUNT:
                flag = name.replace("_", "-")
                raise ConfigError(f"--{flag} {value}: give 1 to {MOST_COUNT:,}")
    wrong = [w for w in fixed.get("pools") or () if w not in ("together", "apart")]
    if wrong:
        raise ConfigError(f"--pools {','.join(wrong)}: give together, apart, or both with a comma")
    node = machine.dimensions[0].size
    heads = model.kv_heads or model.heads
    powers = [2**i for i in range(12) if 2**i <= min(node, machine.size)]
    fixed_axes = {k: list(v) for k, v in fixed.items() if v}
    experts = [e for e in (1, *powers[1:]) if model.experts and model.experts % e == 0] or [1]
    return ServingSpace(
        tp=fixed_axes.get(
            "tp", [t for t in powers if model.heads % t == 0 and heads % min(t, heads) == 0]
        ),
        pp=fixed_axes.get("pp", [1]),
        ep=fixed_axes.get("ep", experts),
        batch_tokens=fixed_axes.get("batch_tokens", list(BATCH_TOKENS)),
        batch_requests=fixed_axes.get("batch_requests", list(BATCH_REQUESTS)),
        pools=fixed_axes.get("pools", ["together", "apart"]),
    )


class ServingPlan(Result, msgspec.Struct, kw_only=True):
    """A way to serve, and what came of it."""

    devices: int
    tp: int
    pp: int
    ep: int
    replicas: int
    prefill: int
    decode: int
    prefill_tp: int
    decode_tp: int
    batch_tokens: int
    batch_requests: int
    price_per_hour: float | None
    """Of all devices; None where neither the machine nor the user says."""
    meets: bool
    attained: float
    """Share of the requests within the level."""
    falls_behind: bool = False
    """Whether requests take ever longer, so that a longer stream would not be served."""
    load: float | None = None
    """Requests that come over what the engines can serve at the most; None where requests wait for others,
    and where it was not needed."""
    longer_requests: int = 0
    """Requests of the stream repeated, where the given one is too short to tell; 0 where it is not."""
    longer_attained: float | None = None
    """Share of these within the level."""
    unsure: bool = False
    """Whether nothing tells if the engines keep up: the stream is too short and cannot be repeated, or the
    search was stopped before."""
    slack: float
    """How far the tightest percentile stays below its limit, as a share of the limit."""
    ttft_ms: float
    tpot_ms: float | None
    e2e_ms: float
    """At the percentile that the level asks for; per token None where no request had a second one."""
    output_tokens_per_s: float
    goodput: float
    price_per_million_tokens: float | None
    """None where the price is, and where every request was given up."""
    why: str = ""
    """Why it lost to the best; of the best, what bounds it."""
    machine: str = ""
    """Whose devices, where several machines were given."""

    def lasts(self, attain: float) -> bool:
        """Whether it meets the level when the stream goes on."""
        longer = self.attained if self.longer_attained is None else self.longer_attained
        return not self.falls_behind and longer >= attain

    @property
    def engines(self) -> str:
        """Engines and their sizes, as in `2×tp4` or `1×tp4 + 2×tp8`."""
        if self.prefill:
            return f"{self.prefill}×tp{self.prefill_tp} + {self.decode}×tp{self.decode_tp}"
        more = [f" {name}{n}" for name, n in (("pp", self.pp), ("ep", self.ep)) if n > 1]
        return f"{self.replicas}×tp{self.tp}" + "".join(more)


class ServingSearchResult(Ranked, msgspec.Struct, kw_only=True):
    """What `chakra search --serve --json` prints."""

    best: ServingPlan
    runners_up: list[ServingPlan]
    """The best on other machines; other layouts with as many devices that meet the level, then the nearest
    that do not."""
    served: int
    """Candidates that were served, to the end or until they could not meet the level any more."""
    given_up: int
    over_memory: int
    """Candidates whose weights or requests do not fit."""
    machine: str
    level: str
    attain: float
    command: str
    """The command that serves the best again."""
    configurations: list[str] = []
    """What was written for engines, and what each cannot say."""
    model: ModelFigures | None = None
    """The model, and the precision in which it is served."""
    stopped: bool = False
    """Whether it was interrupted: the best of what had been looked at by then."""
    refused: dict[str, str] = {}
    """Of several machines those that cannot serve it, and why."""

    def picture(self) -> Bars:
        """Throughput of each way."""
        rates = [(p.engines, p.output_tokens_per_s) for p in self.table_rows()]
        rows = [(name, rate, f"{rate:,.0f} tokens/s") for name, rate in rates]
        return Bars(f"output on {self.machine} within {self.level}", rows)


@dataclass
class _Search:
    base: ServingSession
    level: ServiceLevel
    attain: float
    price: float
    served: int = 0
    given_up: int = 0
    over_memory: int = 0
    stopped: bool = False
    most: dict[Candidate, float | None] = field(default_factory=dict)
    """Requests a second that engines alone can serve, by candidate."""

    def serving(self, candidate: Candidate) -> ServingSession:
        limits = {"token_budget": candidate.batch_tokens, "max_requests": candidate.batch_requests}
        engine = msgspec.structs.replace(self.base.engine, **limits)
        return replace(self.base, layout=candidate.layout, engine=engine)

    def plan(self, candidate: Candidate) -> ServingPlan | None:
        """What a candidate comes to; None where it cannot be. It may be given up on the way."""
        may_miss = math.floor((1 - self.attain) * len(self.base.stream) + 1e-9)
        try:
            served = self.serving(candidate).served(self.level, may_miss)
        except ConfigError:
            self.over_memory += 1
            return None
        self.served += 1
        self.given_up += served.outcome.given_up
        return self._result(candidate, served)

    def judge(self, candidate: Candidate, plan: ServingPlan) -> None:
        """Finds out whether a way that meets the level keeps up with a stream that goes on."""
        serving = self.serving(candidate)
        served = serving.served(self.level)
        if not is_open(serving):
            plan.falls_behind = served.falls_behind
            plan.unsure = served.too_short_to_tell and not self.base.stream.concurrency
            return
        plan.load = self._load(candidate)
        plan.falls_behind = plan.load is not None and plan.load >= 1
        if plan.falls_behind:
            return
        if (longer := served_on(serving, served, self.level)) is not None:
            result = longer.result()
            plan.longer_requests, plan.longer_attained = result.requests, result.attained

    def _load(self, candidate: Candidate) -> float | None:
        """Requests that come over those that can be served; of equal engines side by side one is tried."""
        layout, copies = smallest_alike(candidate.layout)
        alone = msgspec.structs.replace(candidate, layout=layout, devices=0)
        if alone not in self.most:
            self.most[alone] = most_requests_per_s(self.serving(alone))
        most, come = self.most[alone], requests_per_s(self.base.stream)
        return come / (copies * most) if most and come else None

    def served_to_end(self, candidate: Candidate) -> ServingPlan:
        """What a candidate comes to when all requests are served, whatever they miss."""
        return self._result(candidate, self.serving(candidate).served(self.level))

    def _result(self, candidate: Candidate, served: ServedRun) -> ServingPlan:
        result, at = served.result(), served.percentiles(self.attain)
        meets = not served.outcome.given_up and result.attained >= self.attain
        limits = (self.level.ttft, self.level.tpot, self.level.e2e)
        latencies = [(at_most or 0.0, most) for at_most, most in zip(at, limits, strict=True)]
        slack = min(1 - latency / most for latency, most in latencies if most)
        layout = msgspec.structs.asdict(candidate.layout)
        hourly = self.price * candidate.devices or None
        rate = result.output_tokens_per_s  # 0 where every request was given up
        per_million = hourly / 3600 / rate * 1e6 if hourly and rate else None
        return ServingPlan(
            **{n: v for n, v in layout.items() if n != "dp"},
            devices=candidate.devices,
            batch_tokens=candidate.batch_tokens,
            batch_requests=candidate.batch_requests,
            price_per_hour=hourly,
            meets=meets,
            attained=result.attained,
            slack=slack if meets else min(slack, 0.0),
            ttft_ms=at[0],
            tpot_ms=at[1],
            e2e_ms=at[2],
            output_tokens_per_s=result.output_tokens_per_s,
            goodput=result.goodput,
            price_per_million_tokens=per_million,
        )


def search_serving(
    model: str,
    gpus: Sequence[int],
    machine: str,
    requests: Any,
    slo: str,
    *,
    engine: str = "vllm",
    attain: float = 0.99,
    fixed: Mapping[str, Sequence[Any]] | None = None,
    price_per_hour: float | None = None,
    runners: int = 5,
    progress: Progress = quiet,
    **settings: Any,
) -> tuple[ServingSearchResult, ServingSession]:
    """The cheapest way, what else there is, and the best way as something to serve with.

    One number in `gpus` is the most devices; several are those to choose from.
    """
    level = _checked_level(slo, attain)
    counts = _counts(gpus)
    name = machine_for(machine, counts[-1])
    loaded = load_machine(name)
    base = serving_of(model, loaded, requests, engine, **settings)
    price = loaded.device(0).price_per_hour if price_per_hour is None else price_per_hour
    search = _Search(base, level, attain, price)
    engine_limits = {
        name: [value] for name, (_, value, is_set) in batch_limits(engine).items() if is_set
    }
    space = serving_space(base.model, loaded, {**engine_limits, **(fixed or {})})
    best, runners_up = _cheapest(search, space, counts, runners, progress)
    best_plan, serving = best
    result = ServingSearchResult(
        best=best_plan,
        runners_up=runners_up,
        served=search.served,
        given_up=search.given_up,
        over_memory=search.over_memory,
        machine=name,
        level=slo,
        attain=attain,
        command=_command(model, name, requests, engine, slo, best_plan),
        model=serving.operators(max(1, best_plan.tp)).figures_on(loaded.device(0).peak),
        stopped=search.stopped,
    )
    return result, serving


Found = tuple[ServingSearchResult, ServingSession]


def search_serving_on(
    model: str,
    gpus: Sequence[int],
    machines: Sequence[str],
    requests: Any,
    slo: str,
    *,
    price_per_hour: float | None = None,
    **settings: Any,
) -> Found:
    """The cheapest way on any of several machines: by price, or by devices where no machine has one.

    Of several machines those that state no price have `price_per_hour`; of one it goes before its own.
    """
    named = {m: load_machine(machine_for(m, _counts(gpus)[-1])) for m in machines}
    stated = {m: loaded.device(0).price_per_hour or None for m, loaded in named.items()}
    prices = {
        m: price_per_hour if len(stated) == 1 else p or price_per_hour for m, p in stated.items()
    }
    found: list[Found] = []
    refused: dict[str, str] = {}
    for machine in machines:
        try:
            price = prices[machine]
            given = (model, gpus, machine, requests, slo)
            found.append(search_serving(*given, price_per_hour=price, **settings))
        except ConfigError as error:
            refused[machine] = str(error)
        if found and found[-1][0].stopped:
            break
    if not found:
        raise ConfigError("; ".join(f"{name}: {why}" for name, why in refused.items()))
    result, serving = _cheapest_machine(found)
    return msgspec.structs.replace(result, refused=refused), serving


def _cheapest_machine(found: list[Found]) -> Found:
    """The result with the cheapest best way, and the best of the others among its runners-up."""
    if len(found) == 1:
        return found[0]
    for result, _ in found:
        for plan in (result.best, *result.runners_up):
            plan.machine = result.machine

    def cost(one: Found) -> tuple[float, float, float]:
        """Machines without a price come after all others: nothing says that they are cheaper."""
        best = one[0].best
        unknown = best.price_per_hour is None
        return unknown, best.devices if unknown else best.price_per_hour or 0.0, -best.slack

    (result, serving), *others = sorted(found, key=cost)
    elsewhere = [other.best for other, _ in others]
    for plan, (other, _) in zip(elsewhere, others, strict=True):
        plan.why = _dearer(plan, result.best)
        result.served += other.served
        result.given_up += other.given_up
        result.over_memory += other.over_memory
        result.stopped |= other.stopped
    result.runners_up = [*elsewhere, *result.runners_up]
    return result, serving


def _dearer(plan: ServingPlan, best: ServingPlan) -> str:
    """What the best way on another machine costs more."""
    if plan.price_per_hour is not None and best.price_per_hour is not None:
        more = plan.price_per_hour - best.price_per_hour
        return f"the best on {plan.machine}: ${more:,.2f} more an hour"
    if best.price_per_hour is None:
        more_devices = plan.devices - best.devices
        return f"the best on {plan.machine}: {more_devices} more devices; no price is known"
    return (
        f"the best on {plan.machine}: not compared, it states no price; give --price-per-hour, or "
        "`price_per_hour` of its device in a machine file"
    )


def _checked_level(slo: str, attain: float) -> ServiceLevel:
    level = ServiceLevel.parse(slo)
    if not any((level.ttft, level.tpot, level.e2e)):
        raise ConfigError(
            "--serve needs a service level above 0; give --slo ttft=500,tpot=50 or the like"
        )
    if not 0 < attain <= 1:
        raise ConfigError(f"--attain {attain}: give a share of the requests, above 0 up to 1")
    return level


def _counts(gpus: Sequence[int]) -> Sequence[int]:
    if not gpus or min(gpus) < 1:
        raise ConfigError("gpus should be one or more numbers of 1 or more, as in 8 or 4,8,16")
    return sorted(set(gpus)) if len(gpus) > 1 else range(1, gpus[0] + 1)


Tried = tuple[ServingPlan, Candidate]


def _cheapest(
    search: _Search, space: ServingSpace, counts: Sequence[int], runners: int, progress: Progress
) -> tuple[tuple[ServingPlan, ServingSession], list[ServingPlan]]:
    missed: list[Tried] = []
    late: list[Tried] = []
    looked_at = itertools.count(1)
    for count in counts:
        tried: list[Tried] = []
        lasting: list[Tried] = []
        try:
            for candidate in space.candidates(count):
                plan = search.plan(candidate)
                progress(next(looked_at), None)
                if plan is not None:
                    tried.append((plan, candidate))
            meeting = sorted((t for t in tried if t[0].meets), key=lambda t: -t[0].slack)
            for way in meeting:
                if len(_by_layout(lasting)) > runners:
                    break
                search.judge(way[1], way[0])
                progress(next(looked_at), None)
                (lasting if way[0].lasts(search.attain) else late).append(way)
        except KeyboardInterrupt:
            search.stopped = True
            judged = [id(way) for way in (*lasting, *late)]
            rest = [t for t in tried if t[0].meets and id(t) not in judged]
            for plan, _ in rest:
                plan.unsure = True
            lasting = lasting or sorted(rest, key=lambda t: -t[0].slack)
            if not lasting and not late:
                raise
        missed += [t for t in tried if not t[0].meets]
        if lasting:
            return _chosen(search, lasting, late, missed, runners)
        if search.stopped:
            break
    if late:
        late.sort(key=lambda t: (t[0].falls_behind, -(t[0].longer_attained or 0.0)))
        return _chosen(search, late, [], missed, runners)
    raise ConfigError(_no_way_message(search, _nearest(search, missed), counts))


def _chosen(
    search: _Search, meeting: list[Tried], late: list[Tried], missed: list[Tried], runners: int
) -> tuple[tuple[ServingPlan, ServingSession], list[ServingPlan]]:
    """The best of the ways that meet the level, and why the others lost to it."""
    best, candidate = meeting[0]
    best.why = _bound(best, search)
    runners_up = [plan for plan, _ in _by_layout(meeting)[1 : 1 + runners]]
    losers = [*runners_up, *(plan for plan, _ in _by_layout(late)[:1]), *_nearest(search, missed)]
    for loser in losers:
        loser.why = _why(loser, best, search)
    return (best, search.serving(candidate)), losers


def _by_layout(tried: list[Tried]) -> list[Tried]:
    """The first of each layout, whatever its batch limits."""
    first_of_layout: dict[EngineLayout, Tried] = {}
    for attempt in tried:
        first_of_layout.setdefault(attempt[1].layout, attempt)
    return list(first_of_layout.values())


def _nearest(search: _Search, missed: list[Tried]) -> list[ServingPlan]:
    """The two that served most before they were given up, served to the end."""
    far = _by_layout(sorted(missed, key=lambda t: -t[0].attained))[:2]
    return sorted((search.served_to_end(c) for _, c in far), key=lambda p: -p.attained)


def _no_way_message(search: _Search, near: list[ServingPlan], counts: Sequence[int]) -> str:
    sentence = f"no way to serve with up to {counts[-1]} devices meets the level"
    if not near:
        return (
            f"{sentence}: none of {search.over_memory:,} has room for weights, cache and requests"
        )
    best = near[0]
    return (
        f"{sentence} for {search.attain:.0%} of the requests; the nearest, {_layout(best)} with "
        f"{best.batch_tokens:,} tokens and {best.batch_requests:,} requests in a step, does for "
        f"{best.attained:.1%}; use more devices, a lower rate or a weaker level"
    )


def _layout(plan: ServingPlan) -> str:
    if plan.prefill:
        before = _engines(plan.prefill, "prefill engine", plan.prefill_tp)
        return f"{before} and {_engines(plan.decode, 'decode engine', plan.decode_tp)}"
    return _engines(plan.replicas, "engine", plan.tp * plan.pp * plan.ep)


def _engines(count: int, noun: str, size: int) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''} of {size}"


def _limits(plan: ServingPlan, level: ServiceLevel) -> dict[str, float]:
    """How much of each limit is used."""
    pairs = (
        ("time to first token", plan.ttft_ms, level.ttft),
        ("time per token", plan.tpot_ms, level.tpot),
        ("end to end", plan.e2e_ms, level.e2e),
    )
    return {name: (latency or 0.0) / most for name, latency, most in pairs if most}


def _bound(plan: ServingPlan, search: _Search) -> str:
    name, used = max(_limits(plan, search.level).items(), key=lambda item: item[1])
    tightest = f"{_layout(plan)}; {name} is the tightest, at {used:.0%} of its limit"
    if not plan.lasts(search.attain):
        return (
            f"warning: {tightest}; {_late(plan)}, and no way with these devices does better; ask for tpot "
            "or e2e too, or give more devices"
        )
    return f"{tightest}{_outlook(plan)}"


_UNSURE = "the stream is too short to tell and cannot be repeated, or the search was stopped before"


def _outlook(plan: ServingPlan) -> str:
    """What a stream that goes on says of a way that keeps up."""
    if plan.unsure:
        return "; warning: nobody knows whether the engines keep up: " + _UNSURE
    loaded = (
        "" if plan.load is None else f"; the stream brings {plan.load:.0%} of what it can serve"
    )
    if plan.longer_attained is None:
        return loaded
    return f"{loaded}, and of {plan.longer_requests:,} such requests {plan.longer_attained:.1%} are within"


def _late(plan: ServingPlan) -> str:
    """How a way that meets the level does not when the stream goes on."""
    if plan.load is not None and plan.falls_behind:
        return f"it falls behind: the stream brings {plan.load:.0%} of what it can serve"
    if plan.falls_behind:
        return "it falls behind the stream: requests take ever longer"
    return (
        f"when the stream goes on, only {plan.longer_attained:.1%} of {plan.longer_requests:,} requests are "
        "within the level"
    )


def _why(plan: ServingPlan, best: ServingPlan, search: _Search) -> str:
    if not plan.meets:
        more = "fewer" if plan.devices < best.devices else "as many"
        return f"{_layout(plan)}: {more} devices, but only {plan.attained:.1%} within the level"
    if not plan.lasts(search.attain) and best.lasts(search.attain):
        return f"{_layout(plan)}: within the level, but {_late(plan)}"
    name, used = max(_limits(plan, search.level).items(), key=lambda item: item[1])
    same = _limits(best, search.level)[name]
    return f"{_layout(plan)}: {name} at {used:.0%} of its limit, {same:.0%} with the best"


def _command(
    model: str, machine: str, requests: Any, engine: str, slo: str, plan: ServingPlan
) -> str:
    """The best way as a command line, in the engine's own names for its limits."""
    name, inside = head_and_inside(engine, "--engine")
    limits = [
        f"{option}={getattr(plan, axis)}"
        for axis, (option, _, is_set) in batch_limits(engine).items()
        if not is_set
    ]
    options = ", ".join(part for part in (inside.strip(), *limits) if part)
    parts = ["chakra serve", f"--model {model}", f"--machine {machine}", f"--requests '{requests}'"]
    parts.append(f"--engine '{name}{{{options}}}' --slo {slo}")
    if plan.prefill:
        sizes = f"--prefill-tp {plan.prefill_tp} --decode-tp {plan.decode_tp}"
        parts.append(f"--prefill {plan.prefill} --decode {plan.decode} {sizes}")
    else:
        parts.append(f"--tp {plan.tp} --pp {plan.pp} --dp {plan.ep} --ep {plan.ep}")
        parts.append(f"--replicas {plan.replicas}")
    return " ".join(parts)
