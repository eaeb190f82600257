"""Serves a stream of requests with a model, an engine and a layout on a machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit.configuration import is_program
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.device import EVERY_PHASE, PICO, Clocks, Device, clocks_of
from chakrakit.machines.fabric import Machine
from chakrakit.operators import element_bytes, rate_name
from chakrakit.results import counted
from chakrakit.serving.calibration import FITTED_TO, Fitted, Region, constants_of
from chakrakit.serving.cluster import (
    PoolSetup,
    Role,
    Router,
    ServingOutcome,
    Setup,
    check_policy,
    run,
    unused,
)
from chakrakit.serving.engine import EngineOptions, engine_from
from chakrakit.serving.kvcache import Capacity, capacity_of
from chakrakit.serving.links import Codec, MoveLinks
from chakrakit.serving.plan import EngineLayout, Handover, check_feasible, serving_step
from chakrakit.serving.policies import division_of, hooks_of, policy_from
from chakrakit.serving.ranks import RankFailure
from chakrakit.serving.requests import RequestStream, Source, requests_from
from chakrakit.serving.results import (
    ServedRun,
    ServeResult,
    ServiceLevel,
    expanded,
    window_of,
    write_run,
)
from chakrakit.serving.steps import (
    RATED,
    MeasuredSteps,
    ModelledSteps,
    ServedOperators,
    StepCost,
    StepOperators,
    read_layers,
    step_operators,
)
from chakrakit.simulator.results import simulate
from chakrakit.trace.sets import PS_PER_NS, Card, Footprint, Run, TraceSet, footprint_of
from chakrakit.trace.storage import write_with_requests
from chakrakit.workloads.description import (
    Attention,
    CompressedAttention,
    Decoder,
    LatentAttention,
    Mixer,
    Model,
    Recorded,
    Step,
    layer_rows,
)
from chakrakit.workloads.models import model_named

HOST_BANDWIDTH = 25e9
"""Bytes per second between a device and its host: what copies reach of the 31.5 GB/s of PCIe 4.0 x16."""


@dataclass(frozen=True, kw_only=True)
class ServingSession:
    """A stream, a model, a machine and an engine, resolved and checked; `run` serves the stream.

    Fields are those of `serve`.
    """

    model: Decoder
    machine: Machine
    stream: RequestStream
    engine: EngineOptions
    layout: EngineLayout = field(default_factory=EngineLayout)
    layers: str | None = None
    kv_blocks: int | None = None
    compute: str = "auto"
    dtype: str = "bf16"
    quantization: str = ""
    router: Router = "turn"
    faults: Sequence[tuple[float, int, float]] = ()
    rank_faults: Sequence[RankFailure] = ()
    codecs: Sequence[Codec] = ()
    link_schedule: Sequence[tuple[float, float]] = ()
    store_schedule: Sequence[tuple[float, float]] = ()
    source: Source | None = None
    policy: Any = None
    seed: int = 0
    clocks: Clocks = field(default_factory=Clocks)
    costs: dict[tuple[float, ...], StepCost] = field(default_factory=dict, repr=False)
    """Step times by plan; a search shares them, as they depend on nothing else that it varies."""

    @cached_property
    def device(self) -> Device:
        """The accelerator of the first rank."""
        return self.machine.device(0)

    def operators(self, tp: int) -> StepOperators:
        """The operators of one engine's step."""
        plan = self.layout.plan(tp, self.model)
        if plan.tp * plan.pp * plan.dp > self.machine.size:
            raise ConfigError(
                f"an engine of tp {plan.tp} × pp {plan.pp} × dp {plan.dp} needs "
                f"{plan.tp * plan.pp * plan.dp} devices; {self.machine.name} has {self.machine.size}"
            )
        return step_operators(self.model, plan, self.step, self.quantization == "fp4")

    @property
    def step(self) -> Step:
        """The step for which operators are recorded, with the cache that the engine was asked for."""
        return serving_step(self.dtype, self.quantization, self.engine.cache_dtype)

    def clock_share(self, role: Role) -> float:
        """The clock of a pool of this role, as a share of the highest."""
        self.clocks.check_constants(self.device)
        if not self.clocks.mhz or self.device.dynamic is None:
            return 1.0
        return self.clocks.share(role, self.device.dynamic, self.device.name)

    def cost(self, operators: StepOperators, clock_share: float = 1.0) -> StepCost:
        """Step times under a plan at a clock, computed once for each."""
        plan = operators.plan
        key = (plan.tp, plan.pp, plan.dp, plan.ep, clock_share)
        if key not in self.costs:
            self.costs[key] = self._cost(operators, clock_share)
        return self.costs[key]

    def _cost(self, operators: StepOperators, clock_share: float) -> StepCost:
        """Step times of measured layers where there are any, else of the operators."""
        if self.layers is not None:
            if self.clocks:
                raise ConfigError(
                    "--clock and --power-cap change computed times; leave out --layers, which are measured"
                )
            if self.engine.sorted_sampling:
                raise ConfigError(
                    "sampling=sorted adds computed times; leave it out with --layers, whose measured sampler "
                    "is as it was"
                )
            return MeasuredSteps(read_layers(self.layers), operators, self.machine).cost()
        cost = self._modelled(operators, clock_share).cost(
            whole=self.engine.padding is not None, sorted_sampling=self.engine.sorted_sampling
        )
        return replace(cost, about=self._rung(cost.about))

    def _modelled(self, operators: StepOperators, clock_share: float) -> ModelledSteps:
        """Step times of the operators; all engines but transformers have an all-reduce of their own."""
        constants = None if self.fitted is None else self.fitted.constants
        own_all_reduce = self.engine.name != "transformers"
        return ModelledSteps(
            operators, self.machine, self.compute, constants, own_all_reduce, clock_share
        )

    @cached_property
    def fitted(self) -> Fitted | None:
        """The engine's constants for this device; None with measured layers or `compute` set."""
        if self.layers is not None or self.compute != "auto":
            return None
        return constants_of(self.device, self.engine.name)

    def _rung(self, about: str) -> str:
        """Where step times come from, in words."""
        if self.fitted is None:
            return about
        carried = (
            "" if self.fitted.device == self.device.name else f", carried from {self.fitted.device}"
        )
        return (
            f"data sheet of {self.device.name} at the shares {FITTED_TO} of "
            f"{self.engine.name}{carried}"
        )

    def _beyond_fitted(self, outcome: ServingOutcome) -> tuple[str, ...]:
        """A warning where a run leaves what the engine's constants were fitted on."""
        if self.fitted is None:
            return ()
        steps = sum(int(t["steps"]) for t in outcome.totals)
        batch = sum(int(t["pieces"]) for t in outcome.totals) / max(1, steps)
        sizes = (batch, float(outcome.stream.prompt.mean()), float(outcome.stream.output.mean()))
        requests, prompt, output = (max(1, round(size)) for size in sizes)
        stated = self.operators(self._tps[0]).model_figures.precision.weights
        run = Region(
            runs=1,
            requests=(requests, requests),
            prompt=(prompt, prompt),
            output=(output, output),
            tp=(min(self._tps), max(self._tps)),
            attention=attention_kinds(self.model),
            experts=bool(self.model.experts),
            precisions=list(dict.fromkeys(map(rate_name, stated.split(" + ")))),
        )
        beyond = self.fitted.region.beyond(run)
        if self.fitted.device != self.device.name:
            beyond = [f"another device than {self.fitted.device}", *beyond]
        if not beyond:
            return ()
        return (
            f"step times leave what the constants of {self.engine.name} were fitted on: "
            + "; ".join(beyond),
        )

    def _held_back(self, outcome: ServingOutcome) -> tuple[str, ...]:
        """A warning where whole prompts find no room in steps beside the requests that decode."""
        engine = self.engine
        if engine.chunked or engine.discipline == "prefill_alone" or not len(outcome.stream):
            return ()
        longest = int(outcome.stream.prompt.max())
        room = (engine.token_budget - longest) // (1 + engine.drafts)
        there = -(-outcome.most_under_way // max(1, len(outcome.totals)))
        if room >= min(there, engine.max_requests):
            return ()
        return (
            f"warning: prompts start whole, without chunks: one of {longest:,} tokens fits a step of "
            f"{engine.token_budget:,} beside at most {room:,} requests that decode, and up to {there:,} are "
            "there; prompts wait until some end: allow more tokens in a step",
        )

    @cached_property
    def options(self) -> EngineOptions:
        """The engine's options, with fitted times where the user set none."""
        if self.fitted is None:
            return self.engine
        constants, engine = self.fitted.constants, self.engine
        names = ("serial_ms", "serial_per_request_ms", "frontend_ms")
        times = {n: getattr(engine, n) or getattr(constants, n) for n in names}
        launches = [
            constants.prompt_kernel_us * o.kernels + constants.prompt_expert_us * o.expert_products
            for o in map(self.operators, self._tps)
        ]
        times["prompt_launch_ms"] = max(launches) * 1e-3
        return msgspec.structs.replace(engine, **times)

    def capacity(self, operators: StepOperators) -> Capacity:
        """The cache of one engine."""
        return capacity_of(self.engine, operators, self.device, self.kv_blocks, self.request_tokens)

    @cached_property
    def request_tokens(self) -> int:
        """Tokens of a request at its end, on average."""
        return max(1, round(float((self.stream.prompt + self.stream.output).mean())))

    def pool(self, role: Role, engines: int, tp: int) -> PoolSetup:
        """The setup of a pool of equal engines."""
        operators = self.operators(tp)
        capacity = self.capacity(operators)
        check_feasible(self.stream, self.engine, capacity)
        return PoolSetup(
            self.options,
            self.cost(operators, self.clock_share(role)),
            capacity,
            engines=engines * self.layout.dp,
            ranks=operators.plan.dp,
            stages=self.layout.pp,
            role=role,
            host_bandwidth=HOST_BANDWIDTH,
            capture_seconds=self._capture_seconds(),
            adapter_seconds=self._adapter_seconds(operators),
        )

    @property
    def expert_bytes(self) -> float:
        """Bytes of the experts that one rank of an expert-parallel engine holds."""
        model, layout = self.model, self.layout
        if not model.experts or layout.ep < 2:
            raise ConfigError("a rank fails alone where experts are spread over ranks; give --ep")
        layers = model.layers - model.dense_layers
        matrices = 3 * model.hidden * (model.expert_ffn or model.ffn or 0)
        each = element_bytes("fp8" if self.quantization else self.dtype)
        return model.experts / layout.ep * matrices * each * layers / layout.pp

    def _capture_seconds(self) -> float:
        engine = self.engine
        return (engine.capture_ms + engine.capture_ms_per_layer * self.model.layers) / 1e3

    def _adapter_seconds(self, operators: StepOperators) -> float:
        """Seconds to read one adapter's two factors for each matmul of every layer."""
        if not self.engine.max_adapters:
            return 0.0
        matmuls = [
            o for o in operators.operators if o.op == "matmul" and not o.by_sampled and not o.routed
        ]
        size = sum(o.count * (o.inner + o.outer) * self.engine.adapter_rank * 2 for o in matmuls)
        return size / (self.device.memory_bandwidth * self.device.memory_efficiency)

    @cached_property
    def setup(self) -> Setup:
        """The setup that the core runs."""
        layout = self.layout
        layout.check()
        phases = {"prefill", "decode"} if layout.apart else set()
        self.clocks.check_phases(
            phases, "phases have clocks where --prefill and --decode give them engines"
        )
        if not layout.apart:
            pools = [self.pool("whole", layout.replicas, layout.tp)]
            moves = callable(getattr(self.policy, "migrate", None))
            return self._setup(pools, self._between_replicas() if moves else Handover())
        tps = (self._tps[0], self._tps[1])
        prefill = self.pool("prefill", layout.prefill, tps[0])
        decode = self.pool("decode", layout.decode, tps[1])
        # Ranks send side by side: as many as the smaller engine has, each an equal part.
        whole = self.operators(tps[0]).cache_bytes_per_token(self.request_tokens) * tps[0]
        lengths = (int(self.stream.prompt.min()), int(self.stream.prompt.max()))
        target = layout.prefill * tps[0] * layout.pp
        handover = Handover.between(self.machine, whole / min(tps), target, lengths)
        return self._setup([prefill, decode], handover)

    def _between_replicas(self) -> Handover:
        """How caches migrate: as to the next replica, or to another node where one does not hold them all."""
        layout = self.layout
        size = layout.tp * layout.pp * layout.dp
        beside = (
            size if layout.replicas * size <= self.machine.node_size else self.machine.node_size
        )
        each = self.operators(layout.tp).cache_bytes_per_token(self.request_tokens)
        lengths = (int(self.stream.prompt.min()), int(self.stream.prompt.max()))
        return Handover.between(self.machine, each, beside, lengths)

    def _setup(self, pools: list[PoolSetup], handover: Handover) -> Setup:
        check_policy(self.policy, pools)
        return Setup(
            replace(self.stream, model=None),  # whatever they ask for, there is one model
            pools,
            router=self.router,
            handover_seconds_per_token=handover.seconds_per_token,
            handover_latency=handover.latency,
            links=self._links(),
            faults=self.faults,
            rank_faults=[f.pause(self.expert_bytes) for f in self.rank_faults],
            source=self.source,
            feasible=lambda part: self._check(part, pools),
            hooks=None if self.policy is None else hooks_of(self.policy),
            divide=division_of(self.policy),
            seed=self.seed,
        )

    def _links(self) -> MoveLinks:
        """Moves go layer by layer; a codec works on what one rank of the sender holds."""
        rank = self.operators(self._tps[0]).cache_bytes_per_token(self.request_tokens)
        return MoveLinks.of(
            self.codecs, rank, self.model.layers, self.link_schedule, self.store_schedule
        )

    def _check(self, stream: RequestStream, pools: list[PoolSetup]) -> None:
        for pool in pools:
            check_feasible(stream, self.engine, pool.capacity)

    def card(self) -> dict[str, Any]:
        """The card of a run: how it was made."""
        return {
            "name": f"{self.model.name}-serving",
            "tool": "chakrakit serve",
            "settings": {
                "model": self.model.name,
                "precision": msgspec.to_builtins(
                    self.operators(self._tps[0]).model_figures.precision
                ),
                "machine": self.machine.name,
                "device": self.device.name,
                "engine": msgspec.to_builtins(self.engine),
                "layout": msgspec.to_builtins(self.layout),
                "requests": len(self.stream),
                "step_times": self.setup.pools[0].cost.about,
                "router": self.router,
                "seed": self.seed,
            },
        }

    def expanded(self, served: ServedRun) -> TraceSet:
        """The recorded window as traces with the operators of every engine."""
        if self.quantization == "fp4":
            raise ConfigError(
                "--expand: operators with the weights of --quantization fp4 are not written; use fp8, or a "
                "model whose files have weights of four bits"
            )
        plans = []
        for pool, tp in zip(served.setup.pools, self._tps, strict=True):
            plan = self.layout.plan(tp, self.model)
            if plan.dp > 1:
                raise ConfigError("--expand: ranks that step together are not expanded; use --dp 1")
            plans += [plan] * pool.engines
        return expanded(served, plans, self.model, self.step)

    def simulated(self, served: ServedRun) -> Run:
        """The recorded window on the machine, each operator with the time of the steps that were served.

        Of measured layers and of padded steps no operator's time is known: theirs are the data sheet's.
        """
        computed = self.layers is None and self.engine.padding is None
        work = self._operator_times() if computed else "roofline"
        return simulate(self.expanded(served), self.machine, compute=work).run()

    def _operator_times(self) -> ServedOperators:
        """The times of operators in the steps of all engines, which have one clock."""
        pools = self.setup.pools
        shares = {self.clock_share(pool.role) for pool in pools}
        if len(shares) > 1:
            raise ConfigError("--expand: phases with clocks of their own are not expanded together")
        steps = self._modelled(self.operators(self._tps[0]), shares.pop())
        return ServedOperators(steps, pools[0].cost.about)

    @property
    def _tps(self) -> tuple[int, ...]:
        """Tensor-parallel degrees by pool."""
        layout = self.layout
        if not layout.apart:
            return (layout.tp,)
        return (layout.prefill_tp or layout.tp, layout.decode_tp or layout.tp)

    @property
    def devices(self) -> int:
        """The number of devices of all engines."""
        counts = (
            (self.layout.prefill, self.layout.decode)
            if self.layout.apart
            else (self.layout.replicas,)
        )
        each = self.layout.pp * self.layout.dp
        return sum(count * tp * each for count, tp in zip(counts, self._tps, strict=True))

    def served(
        self, level: ServiceLevel | None = None, may_miss: int | None = None, **recording: Any
    ) -> ServedRun:
        """The stream served to its end, or until more requests than `may_miss` missed the level."""
        level = level or ServiceLevel()
        limits = (level.ttft, level.tpot, level.e2e)
        setup = replace(self.setup, level_ms=limits, may_miss=may_miss, **recording)
        outcome = run(setup)
        return ServedRun(
            setup=replace(setup, stream=outcome.stream),
            outcome=outcome,
            device=self.device,
            devices_per_engine=tuple(tp * self.layout.pp for tp in self._tps),
            work=tuple(self.operators(tp) for tp in self._tps),
            site=self.machine.site,
            level=level,
            clock_shares=tuple(self.clock_share(pool.role) for pool in setup.pools),
            warnings=(
                *self.machine.notes,
                *self.clocks.cap_notes([self.device]),
                *self._beyond_fitted(outcome),
                *self._held_back(outcome),
                *self._beyond_machine(setup),
                *self._beyond_context(outcome.stream),
                *unused(setup.links, setup.pools, self.policy),
            ),
        )

    def _beyond_machine(self, setup: Setup) -> list[str]:
        """Says where engines take more devices than the machine has."""
        each = zip(setup.pools, self._tps, strict=True)
        devices = sum(pool.engines * tp * self.layout.pp for pool, tp in each)
        if devices <= self.machine.size:
            return []
        return [
            f"the engines take {devices:,} devices and {self.machine.name} has {self.machine.size}: as many "
            "of it as they need are taken to stand side by side"
        ]

    def _beyond_context(self, stream: RequestStream) -> list[str]:
        """Says how many requests are longer than the model takes, which engines would refuse or cut."""
        most = self.model.context or self.model.positions
        beyond = int(((stream.prompt + stream.output) > most).sum()) if most else 0
        if not beyond:
            return []
        return [
            f"warning: {beyond:,} of {len(stream):,} requests are longer than the {most:,} tokens, prompt "
            f"and output together, that {self.model.name} takes: an engine would refuse or cut them; "
            "here they are served whole"
        ]

    def within_cap(self) -> ServingSession:
        """The session with clocks at which devices at work stay below the power limit that was asked for.

        Power is that of the stream served at the clocks asked for without the limit.
        """
        cap = self.clocks.cap_watts
        if cap is None or 0 < self.device.power <= cap:
            return self
        device = self.clocks.capped(self.device)
        served = self.served()
        constants = device.dynamic
        assert constants is not None  # else `clock_share` has raised
        shares = served.shares_within(device.power, self.compute not in RATED)
        mhz = {
            role if self.layout.apart else EVERY_PHASE: share * constants.clock_mhz
            for role, share in shares.items()
        }
        return replace(self, clocks=Clocks(mhz, cap), costs={})


def attention_kinds(model: Decoder) -> list[str]:
    """Kinds of attention in the layers of a model, as constants' regions tell them apart; `no` for none.

    `latent`, `compressed`, `multi-head` and `grouped-query`; also `sparse` where an index chooses the keys.
    """
    kinds = [
        kind for layer in layer_rows(model).kinds.values() for kind in _kinds(model, layer.mixer)
    ]
    return sorted(set(kinds)) or ["no"]


def _kinds(model: Decoder, mixer: Mixer | None) -> Iterator[str]:
    match mixer:
        case LatentAttention():
            yield "latent"
        case CompressedAttention():
            yield "compressed"
        case Attention():
            yield "multi-head" if mixer.kv_heads == mixer.heads else "grouped-query"
        case Recorded() if mixer.cache:
            yield "multi-head" if model.kv_heads in (None, 0, model.heads) else "grouped-query"
    if getattr(mixer, "index", None) is not None:
        yield "sparse"


def decoder_named(model: str | Model) -> Decoder:
    """A model over tokens, by its name or as it is."""
    resolved = model_named(model) if isinstance(model, str) else model
    if not isinstance(resolved, Decoder):
        raise ConfigError(
            f"{resolved.name} is not a model over tokens; serve it as a Service with its step times"
        )
    return resolved


STREAM_CHANGES = ("rate_scale", "prompt_scale", "output_scale", "first", "spread")


def stream_asked_for(
    requests: str | RequestStream | Source,
    seed: int | None = None,
    *,
    rate_scale: float = 1.0,
    prompt_scale: float = 1.0,
    output_scale: float = 1.0,
    first: int | None = None,
    spread: float = 0.0,
) -> tuple[RequestStream, Source | None]:
    """The stream of a text, changed as was asked for; of a source, what it begins with, and the source."""
    if isinstance(requests, str) and is_program(requests):
        requests = policy_from(requests, "--requests")
    if not isinstance(requests, (str, os.PathLike, RequestStream)):
        if not isinstance(requests, Source):
            raise ConfigError(
                f"requests {requests!r}: give a file, a process, a stream or a source"
            )
        begun = getattr(requests, "stream", None)
        if not isinstance(begun, RequestStream):
            raise ConfigError(
                f"source {requests!r}: give it a `stream` of the requests that it begins with, which may "
                "all come later; engines are sized by them"
            )
        return begun, requests
    stream = requests_from(requests, seed)
    if first is not None:
        stream = stream.first(first)
    if spread:
        stream = stream.spread(spread, seed or 0)
    return stream.scaled(rate_scale, prompt_scale, output_scale), None


def serving_of(
    model: str | Model,
    machine: str | Machine,
    requests: str | RequestStream | Source,
    engine: str | EngineOptions = "vllm",
    *,
    seed: int | None = None,
    layers: str | os.PathLike[str] | None = None,
    policy: Any = None,
    kv_blocks: int | None = None,
    compute: str = "auto",
    dtype: str = "bf16",
    quantization: str = "",
    router: Router = "turn",
    faults: Sequence[tuple[float, int, float]] = (),
    clock: Mapping[str, float] | Sequence[float] = (),
    power_cap: float | None = None,
    codecs: Sequence[Codec] = (),
    link_schedule: Sequence[tuple[float, float]] = (),
    store_schedule: Sequence[tuple[float, float]] = (),
    rank_faults: Sequence[RankFailure] = (),
    **settings: Any,
) -> ServingSession:
    """The session that these texts and names describe, checked.

    `settings` are those of `stream_asked_for`, and the degrees of an `EngineLayout`.
    """
    changes = {name: settings.pop(name) for name in STREAM_CHANGES if name in settings}
    decoder = decoder_named(model)
    stream, source = stream_asked_for(requests, seed, **changes)
    return ServingSession(
        model=decoder,
        machine=load_machine(machine) if isinstance(machine, str) else machine,
        stream=stream,
        engine=engine_from(engine),
        layout=EngineLayout(**settings),
        source=source,
        codecs=codecs,
        link_schedule=link_schedule,
        store_schedule=store_schedule,
        rank_faults=rank_faults,
        layers=None if layers is None else os.fspath(layers),
        kv_blocks=kv_blocks,
        compute=compute,
        dtype=dtype,
        quantization=quantization,
        router=router,
        faults=faults,
        policy=policy_from(policy) if isinstance(policy, str) else policy,
        seed=seed or 0,
        clocks=clocks_of(clock, power_cap),
    ).within_cap()


def serve_model(
    model: str | Model,
    machine: str | Machine,
    requests: str | RequestStream | Source,
    engine: str | EngineOptions = "vllm",
    *,
    output: str | os.PathLike[str] | None = None,
    slo: str | None = None,
    expand: str | None = None,
    card_settings: Mapping[str, Any] | None = None,
    **settings: Any,
) -> ServeResult:
    """Serves a stream; `settings` are those of `serving_of`, and `chakrakit.serve` explains them all.

    `card_settings` are the user's settings, which the card of the Run holds too.
    """
    serving = serving_of(model, machine, requests, engine, **settings)
    level = ServiceLevel.parse(slo)
    if expand is not None:
        if output is None:
            raise ConfigError("--expand writes a run; say where with -o RUN")
        return _write_expanded(serving, level, expand, Path(output))
    if output is None:
        return serving.served(level).result()
    served = serving.served(level, record_steps=True)
    card = serving.card()
    card["settings"] = {**(card_settings or {}), **card["settings"]}
    write_run(served, Path(output), card)
    return served.result()


def _expanded_card(run: Run, serving: ServingSession, served: ServedRun) -> Card:
    """The card of an expanded window: its engines and what they did, not a step of a workload.

    It has no interval: those that `serve` prints are of requests, and no engine's operators were measured.
    """
    pieces, steps = served.outcome.pieces, served.outcome.steps
    numbers = np.unique(pieces["step"])
    own = serving.card()["settings"]
    footprint = footprint_of(run.card) or Footprint()
    computed = serving.layers is None and serving.engine.padding is None
    rung = {"rung": own["step_times"]} if computed else {}
    unknown = dict.fromkeys(("interval_ns", "compute_error", "extrapolated_share"))
    plain = msgspec.structs.replace(
        footprint, interval_groups={}, interval_operations={}, interval_step="", **unknown, **rung
    )
    settings = {
        **{name: value for name, value in run.card.settings.items() if name != "step"},
        **{name: own[name] for name in ("engine", "layout", "router", "seed")},
        **rung,
        "requests": len(np.unique(pieces["request"])),
        "expanded": {
            "steps": len(numbers),
            "tokens": int(pieces["tokens"].sum()),
            "served_ns": int((steps["end"] - steps["start"])[numbers].sum()) // PS_PER_NS,
        },
    }
    return plain.put(run.card.replace(settings=settings))


def _write_expanded(
    serving: ServingSession, level: ServiceLevel, text: str, output: Path
) -> ServeResult:
    """Serves once to find the window, and again to record what is in it."""
    starts = serving.served(level, record_steps=True).outcome.steps["start"]
    window = window_of(text, len(starts))
    if isinstance(window, int):
        first = starts[window] * PICO
        window = (
            first - 0.2 * PICO,
            first + 0.8 * PICO,
        )  # whole picoseconds: this one, not the next
    served = serving.served(level, window=window)
    run = serving.simulated(served)
    card = _expanded_card(run, serving, served)
    write_with_requests(run.with_card(card), output, served.requests_table())
    done = served.result()
    done.notes.append(_beside_operators(run, serving, card.settings["expanded"]))
    return done


def _beside_operators(run: Run, serving: ServingSession, window: Mapping[str, int]) -> str:
    """How long the window takes as operators and took when it was served, and what makes the difference."""
    steps = counted(window["steps"], "step")
    took, takes = (f"{ns / 1e6:,.2f} ms" for ns in (window["served_ns"], run.makespan_ns))
    if serving.layers is not None or serving.engine.padding is not None:
        whose = "these are timed by the data sheet, as measured layers and padded steps are not made of them"
    else:
        whose = (
            "each takes the same in both; served steps have the engine's own time, its own all-reduce and "
            "padding to graphs besides"
        )
    return f"{steps} took {took} as served and {takes} as operators: {whose}"
