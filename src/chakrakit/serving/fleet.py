"""Unlike engines behind one router: models, devices and degrees, and what a change of shape costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.serving.cluster import MOST_ENGINES, Role, Router, Setup, check_policy, run, unused
from chakrakit.serving.engine import EngineOptions, engine_from
from chakrakit.serving.links import Codec, MoveLinks
from chakrakit.serving.plan import EngineLayout, Handover
from chakrakit.serving.policies import division_of, hooks_of
from chakrakit.serving.ranks import RankFailure
from chakrakit.serving.requests import RequestStream, Source
from chakrakit.serving.results import ServedRun, ServiceLevel
from chakrakit.serving.session import ServingSession, decoder_named
from chakrakit.serving.steps import StepCost, times_on
from chakrakit.workloads.description import Model

STORE_GBPS = 3.0
"""GB/s from a node's local disk, as one NVMe drive reads."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """Equal engines of a cluster.

    `devices` names the first device of each of the `count` engines on their machine; engines whose devices
    overlap are shapes of the same devices, of which one is on at a time. Without it nothing is shared.
    """

    model: str | Model
    machine: str | Machine
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    role: Role = "whole"
    count: int = 1
    options: str | EngineOptions = "vllm"
    devices: Sequence[int] = ()
    kv_blocks: int | None = None
    compute: str = "auto"
    dtype: str = "bf16"
    quantization: str = ""

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp", "ep"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"an EngineSpec with {name} {getattr(self, name)}; give 1 or more"
                )
        if not 1 <= self.count <= MOST_ENGINES:
            raise ConfigError(
                f"an EngineSpec with a count of {self.count}; give 1 or more, and at most {MOST_ENGINES:,}"
            )
        if self.devices and len(self.devices) != self.count:
            raise ConfigError(
                f"an EngineSpec of {self.count} engines names {len(self.devices)} first devices; give as many"
            )

    def session(
        self,
        stream: RequestStream,
        seed: int,
        machine: Machine,
        costs: dict[tuple[float, ...], StepCost],
    ) -> ServingSession:
        """Engines of this kind alone with the stream on their machine, with step times already known."""
        return ServingSession(
            model=decoder_named(self.model),
            machine=machine,
            stream=stream,
            engine=engine_from(self.options),
            layout=EngineLayout(tp=self.tp, pp=self.pp, dp=self.dp, ep=self.ep),
            kv_blocks=self.kv_blocks,
            compute=self.compute,
            dtype=self.dtype,
            quantization=self.quantization,
            seed=seed,
            costs=costs,
        )

    @property
    def paced_by(self) -> tuple[str | int, ...]:
        """What step times depend on besides the degrees: names, or the objects that stand in their place."""
        parts = (self.model, self.machine, self.options, self.compute, self.dtype)
        return *(p if isinstance(p, str) else id(p) for p in parts), self.quantization

    @property
    def size(self) -> int:
        """Devices of one engine."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True)
class EngineShape:
    """One engine on its devices."""

    spec: EngineSpec
    machine: str
    first: int

    def devices(self) -> range:
        """Its devices."""
        return range(self.first, self.first + self.spec.size)

    def overlaps(self, other: EngineShape) -> bool:
        """Whether both need a device."""
        mine, theirs = self.devices(), other.devices()
        return (
            self.machine == other.machine and mine.start < theirs.stop and theirs.start < mine.stop
        )

    def missing(self, before: Sequence[EngineShape], spread: bool = False) -> float:
        """The largest share of the model that one of its devices does not have yet, of those before.

        A device of an engine of degree n has an n-th of the weights, by its place. What is `spread` over
        several engines, as caches are, it has only of the one that it belonged to.
        """
        return max(self._missing(device, before, spread) for device in self.devices())

    def _missing(self, device: int, before: Sequence[EngineShape], spread: bool) -> float:
        low, high = self._part(device)
        had = 0.0
        for shape in before:
            if device in shape.devices():
                other_low, other_high = shape._part(device)
                had = max(had, min(high, other_high) - max(low, other_low))
        return high - low - max(0.0, had) / (len(before) if spread else 1)

    def _part(self, device: int) -> tuple[float, float]:
        place, degree = device - self.first, self.spec.size
        return place / degree, (place + 1) / degree


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A stream and unlike engines, resolved and checked; fields are those of `serve`."""

    specs: Sequence[EngineSpec]
    stream: RequestStream
    router: Router = "turn"
    faults: Sequence[tuple[float, int, float]] = ()
    rank_faults: Sequence[RankFailure] = ()
    codecs: Sequence[Codec] = ()
    link_schedule: Sequence[tuple[float, float]] = ()
    store_schedule: Sequence[tuple[float, float]] = ()
    policy: Any = None
    source: Source | None = None
    store_gbps: float = STORE_GBPS
    seed: int = 0

    def check(self) -> None:
        """Raises an error where requests could never be served, whatever a policy decides."""
        roles = {spec.role for spec in self.specs}
        if "prefill" in roles and "decode" not in roles:
            raise ConfigError("engines of role prefill hand requests on; give some of role decode")
        if roles == {"decode"}:
            raise ConfigError(
                "engines of role decode take what others have prefilled; give some of role prefill or whole"
            )
        served = {decoder_named(spec.model).name for spec in self.specs}
        asked = () if self.stream.model is None else np.unique(self.stream.model)
        for number in (int(n) for n in asked if n >= 0):
            if decoder_named(self.stream.models[number]).name not in served:
                raise ConfigError(
                    f"requests ask for {self.stream.models[number]}, which no engine serves; engines serve "
                    f"{', '.join(sorted(served))}"
                )

    @cached_property
    def sessions(self) -> list[ServingSession]:
        """Engines of each kind, with the requests that ask for their model.

        A machine is read once, and step times are computed once for all kinds that have the same.
        """
        named = {spec.machine for spec in self.specs if isinstance(spec.machine, str)}
        machines = {name: load_machine(name) for name in named}
        costs: defaultdict[tuple[str | int, ...], dict[tuple[float, ...], StepCost]]
        costs = defaultdict(dict)
        return [
            spec.session(
                self._asking(spec),
                self.seed,
                machines[spec.machine] if isinstance(spec.machine, str) else spec.machine,
                costs[spec.paced_by],
            )
            for spec in self.specs
        ]

    def _asking(self, spec: EngineSpec) -> RequestStream:
        number = self._model_number(spec)
        if number < 0 or self.stream.model is None:
            return self.stream
        mine = (self.stream.model == number) | (self.stream.model < 0)
        return self.stream.reordered(mine.nonzero()[0]) if mine.any() else self.stream

    def _model_number(self, spec: EngineSpec) -> int:
        name = decoder_named(spec.model).name
        known = [decoder_named(model).name for model in self.stream.models]
        if name in known:
            return known.index(name)
        if self.stream.models:
            raise ConfigError(
                f"no request can ask for {name}; the stream's models are {', '.join(self.stream.models)}"
            )
        return -1

    @cached_property
    def shapes(self) -> list[EngineShape]:
        """All engines by number."""
        found, free = [], 0
        for spec, session in zip(self.specs, self.sessions, strict=True):
            for i in range(spec.count):
                if spec.devices:
                    last = spec.devices[i] + spec.size - 1
                    if spec.devices[i] < 0 or last >= session.machine.size:
                        raise ConfigError(
                            f"an engine on devices {spec.devices[i]} to {last}; those of "
                            f"{session.machine.name} are 0 to {session.machine.size - 1}"
                        )
                    found.append(EngineShape(spec, session.machine.name, spec.devices[i]))
                else:  # devices of its own, beyond any that are named
                    found.append(EngineShape(spec, f"{session.machine.name} ({len(found)})", free))
        return found

    @cached_property
    def setup(self) -> Setup:
        """Everything the run depends on."""
        self.check()
        pools = [
            replace(session.pool(spec.role, spec.count, spec.tp), model=self._model_number(spec))
            for spec, session in zip(self.specs, self.sessions, strict=True)
        ]
        check_policy(self.policy, pools)
        return Setup(
            self.stream,
            pools,
            router=self.router,
            handovers=self._handovers(),
            links=self._links(),
            faults=self.faults,
            rank_faults=[f.pause(self._session_of(f.rank).expert_bytes) for f in self.rank_faults],
            share_devices=list(self._sharing()),
            hooks=None if self.policy is None else hooks_of(self.policy),
            divide=division_of(self.policy),
            open_seconds=self.open_seconds,
            source=self.source,
            seed=self.seed,
        )

    def _links(self) -> MoveLinks:
        first, spec = self.sessions[0], self.specs[0]
        rank = first.operators(spec.tp).cache_bytes_per_token(first.request_tokens)
        layers = first.model.layers
        return MoveLinks.of(self.codecs, rank, layers, self.link_schedule, self.store_schedule)

    def _sharing(self) -> Iterator[tuple[int, int]]:
        """Pairs of engines that need a device of the same machine."""
        beside: defaultdict[str, list[int]] = defaultdict(list)
        for number, shape in enumerate(self.shapes):
            beside[shape.machine].append(number)
        for numbers in beside.values():
            for a, b in combinations(numbers, 2):
                if not self.shapes[a].overlaps(self.shapes[b]):
                    continue
                if self.shapes[a].spec is self.shapes[b].spec:
                    raise ConfigError(
                        f"engines {a} and {b} of one EngineSpec are on the same devices; give each its own"
                    )
                yield a, b

    def _handovers(self) -> list[Handover]:
        """How caches move from the engines of each kind to those of each, in that order; none where none do.

        Kinds that are alike in what a move depends on, as where engines are listed one by one, share it.
        """
        roles = {spec.role for spec in self.specs}
        if "decode" not in roles and not callable(getattr(self.policy, "migrate", None)):
            return []
        alike = [
            (session.machine.name, session.model.name, spec.tp, spec.size)
            for spec, session in zip(self.specs, self.sessions, strict=True)
        ]
        first = {key: number for number, key in reversed(list(enumerate(alike)))}
        ways = {(a, b): self._handover(first[a], first[b]) for a in first for b in first}
        return [ways[a, b] for a in alike for b in alike]

    def _handover(self, source: int, target: int) -> Handover:
        """From engines of one kind to those of another: between nodes, unless one holds all of a machine's.

        Between two machines the slower network counts. Caches do not go to engines of another model.
        """
        a, b = self.sessions[source], self.sessions[target]
        spec, other = self.specs[source], self.specs[target]
        if a.model.name != b.model.name:
            return Handover()
        whole = a.operators(spec.tp).cache_bytes_per_token(a.request_tokens) * spec.tp
        lengths = (int(self.stream.prompt.min()), int(self.stream.prompt.max()))
        each = whole / min(spec.tp, other.tp)
        if a.machine.name == b.machine.name and self._in_one_node(a.machine):
            return Handover.between(a.machine, each, spec.size, lengths)
        ways = [Handover.between(s.machine, each, s.machine.node_size, lengths) for s in (a, b)]
        return max(ways, key=lambda way: way.seconds(lengths[1]))

    def _in_one_node(self, machine: Machine) -> bool:
        """Whether the engines on a machine have no more devices than a node of it."""
        mine = [
            spec
            for spec, session in zip(self.specs, self.sessions, strict=True)
            if session.machine.name == machine.name
        ]
        own = sum(spec.size * spec.count for spec in mine if not spec.devices)
        named = max((max(spec.devices) + spec.size for spec in mine if spec.devices), default=0)
        return own + named <= machine.node_size

    def open_seconds(self, engine: int, tokens: int) -> float:
        """The time until an engine is ready on devices that others have left with so many cached tokens.

        Weights that its devices do not have come from their neighbours, or from a store where those served
        another model; so do the caches, all devices side by side.
        """
        shape = self.shapes[engine]
        session = self._session_of(engine)
        operators = session.operators(shape.spec.tp)
        others = [o for o in self.shapes if o is not shape and o.overlaps(shape)]
        alike = [o for o in others if decoder_named(o.spec.model).name == session.model.name]
        if not alike:
            return operators.weight_bytes / (self.store_gbps * 1e9)
        weights = operators.weight_bytes * shape.spec.size
        caches = operators.cache_bytes_per_token(session.request_tokens) * shape.spec.tp * tokens
        moved = shape.missing(alike) * weights + shape.missing(alike, spread=True) * caches
        if not moved or session.machine.size < 2:
            return 0.0
        return float(times_on(session.machine).message_seconds(np.array([moved]), 0, 1)[0])

    def _session_of(self, engine: int) -> ServingSession:
        left = engine
        for session, spec in zip(self.sessions, self.specs, strict=True):
            if 0 <= left < spec.count * spec.dp:
                return session
            left -= spec.count * spec.dp
        most = sum(spec.count * spec.dp for spec in self.specs) - 1
        raise ConfigError(
            f"there is no engine or rank {engine}; those of all engines, in order, are 0 to {most}"
        )

    def served(self, level: ServiceLevel | None = None, **recording: Any) -> ServedRun:
        """The stream served to its end."""
        setup = replace(self.setup, **recording)
        outcome = run(setup)
        sessions = self.sessions
        return ServedRun(
            replace(setup, stream=outcome.stream),
            outcome,
            sessions[0].device,
            tuple(spec.tp * spec.pp for spec in self.specs),
            tuple(s.operators(spec.tp) for s, spec in zip(sessions, self.specs, strict=True)),
            sessions[0].machine.site,
            level or ServiceLevel(),
            devices=tuple(s.device for s in sessions),
            warnings=(
                *(note for s in sessions for note in s.machine.notes),
                *unused(setup.links, setup.pools, self.policy),
            ),
        )
