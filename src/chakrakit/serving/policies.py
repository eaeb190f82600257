"""Policies: decisions of engines and of their cluster that a user's object may take over.

A policy is an object with any of these methods; the engine decides where one is missing.

    admit(request, engine) -> bool                   may this waiting request start now?
    batch(running, waiting, engine) -> [(request number, most tokens), …]    what a step works on, in order
    preempt(candidates, engine) -> request number    who gives way when blocks run out
    evict(blocks, engine) -> block number            which cached block is reused, of those nobody holds
    route(request, engines) -> engine number | None  where a new request goes; None: it waits in the queue
    place(request, engines) -> engine number | None  which decode engine takes a prefilled request
    finish(requests, engine) -> [request number, …]  which requests end now, of those that just got a token
    migrate(requests, engine, engines) -> [(request number, engine number), …]   which of an engine's move
    codec(request, source, target, link) -> number   how a cache that moves is encoded
    store_codec(request, engine, link) -> number     how a block that goes to the shared store is encoded
    divide(engine, memory) -> share | None           what content gets of an engine's memory; None: as it is
    scale(engines, now_s) -> int | engine numbers    which engines take new requests; every `interval_s`
    reconfigure(now_s, engines) -> engine numbers    the same where engines share devices: those that it
                                                     names take them over, with the caches

Requests for which `route` or `place` answered None are asked about again, in the order in which they came,
whenever an engine's state has changed. What else a policy may say of itself:

    in_order = True        a request that is held holds those behind it, which are not asked about
    knows_output = True    it is told how many tokens each request has left
    start_up_s = 30.0      an engine that `scale` switches on takes requests after this time
    divide_every = 100     requests that start on an engine before `divide` is asked again
    eager = True           a cache that `divide` makes larger is filled at once, which the next step waits for
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import chakrakit.core as core
from chakrakit.configuration import run_file
from chakrakit.errors import ConfigError
from chakrakit.machines.device import PICO
from chakrakit.serving.policy_views import (
    EngineView,
    LinkView,
    MemoryView,
    RequestView,
    memory_view,
    request_view,
)

NAMES = (
    "admit",
    "batch",
    "preempt",
    "evict",
    "route",
    "place",
    "finish",
    "migrate",
    "codec",
    "store_codec",
    "divide",
    "scale",
    "reconfigure",
)
_CORE_NAME = {"reconfigure": "scale"}
HOLD = -2
"""The core's word for a request that stays in the queue."""


@dataclass(frozen=True)
class Division:
    """How a policy divides memory: how many requests apart, and whether what grows is filled at once."""

    every: int = 100
    eager: bool = False


def division_of(policy: Any) -> Division | None:
    """What a policy says of `divide`; None where it has none."""
    if not callable(getattr(policy, "divide", None)):
        return None
    every = getattr(policy, "divide_every", Division.every)
    if not isinstance(every, int) or not 1 <= every < 2**31 - 1:
        raise ConfigError(f"policy: divide_every is {every!r}; give requests, 1 or more")
    return Division(every, bool(getattr(policy, "eager", False)))


@runtime_checkable
class ServingPolicy(Protocol):
    """Anything with at least one of the methods above."""


class _Eyes:
    """Makes views of a cluster's current state."""

    def __init__(self, cluster: Any, policy: Any) -> None:
        self._cluster = cluster
        self._knows_output = bool(getattr(policy, "knows_output", False))

    def request(self, number: int) -> RequestView:
        return request_view(self._cluster, number, self._knows_output)

    def engine(self, number: int) -> EngineView:
        return EngineView(self._cluster, number, self._knows_output)

    def requests(self, numbers: Iterable[int]) -> list[RequestView]:
        return [self.request(n) for n in numbers]

    def count(self) -> int:
        return int(self._cluster.engines())

    def engines(self) -> list[EngineView]:
        return [self.engine(n) for n in range(self.count())]

    def link(self, source: int, target: int) -> LinkView:
        free = self._cluster.link_free(source, target) * PICO
        return LinkView(self._cluster.link_factor(), free - self._cluster.now() * PICO)

    def store(self) -> LinkView:
        return LinkView(self._cluster.store_factor(), 0.0)

    def memory(self, number: int) -> MemoryView:
        return memory_view(self._cluster, number)


def hooks_of(policy: Any) -> Callable[[Any], core.ServingHooks]:
    """The policy's methods as functions of the core."""
    if not any(callable(getattr(policy, name, None)) for name in NAMES):
        raise ConfigError(f"policy {policy!r} has none of the methods {', '.join(NAMES)}")
    if all(callable(getattr(policy, name, None)) for name in ("scale", "reconfigure")):
        raise ConfigError(f"policy {policy!r} has both scale and reconfigure; give one")

    def hooks(cluster: Any) -> core.ServingHooks:
        core_hooks = core.ServingHooks()
        for name, function in _functions(policy, _Eyes(cluster, policy)).items():
            if callable(getattr(policy, name, None)):
                getattr(core_hooks, _CORE_NAME.get(name, name))(function)
        core_hooks.in_order = bool(getattr(policy, "in_order", False))
        core_hooks.interval = picoseconds_of(policy, "interval_s", 1.0, 1e-6)
        core_hooks.start_up = picoseconds_of(policy, "start_up_s", 0.0, 0.0)
        return core_hooks

    return hooks


def picoseconds_of(owner: Any, name: str, default: float, least: float) -> int:
    """A time that a policy or a source says of itself."""
    seconds = float(getattr(owner, name, default))
    if not least <= seconds < 1e6:
        raise ConfigError(f"policy: {name} is {seconds}; give seconds from {least:g} to 1e6")
    return round(seconds / PICO)


def _functions(policy: Any, see: _Eyes) -> dict[str, Any]:
    return {
        "admit": lambda e, r: bool(policy.admit(see.request(r), see.engine(e))),
        "batch": lambda e, run, wait: _pairs(
            policy.batch(see.requests(run), see.requests(wait), see.engine(e))
        ),
        "preempt": lambda e, rs: _number(policy.preempt(see.requests(rs), see.engine(e))),
        "evict": lambda e, blocks: int(policy.evict(blocks, see.engine(e))),
        "route": lambda r, es: _engine(policy.route(see.request(r), [see.engine(e) for e in es])),
        "place": lambda r, es: _engine(policy.place(see.request(r), [see.engine(e) for e in es])),
        "finish": lambda e, rs: [
            _number(r) for r in policy.finish(see.requests(rs), see.engine(e))
        ],
        "migrate": lambda e, rs: _pairs(
            policy.migrate(see.requests(rs), see.engine(e), see.engines())
        ),
        "scale": lambda now: _on(policy.scale(see.engines(), now * PICO), see.count()),
        "reconfigure": lambda now: _on(policy.reconfigure(now * PICO, see.engines()), see.count()),
        "codec": lambda r, a, b: int(
            policy.codec(see.request(r), see.engine(a), see.engine(b), see.link(a, b))
        ),
        "store_codec": lambda e, r: int(
            policy.store_codec(see.request(r), see.engine(e), see.store())
        ),
        "divide": lambda e: _share(policy.divide(see.engine(e), see.memory(e))),
    }


def _number(answer: Any) -> int:
    """The number of a request or an engine, which may be answered by its view."""
    try:
        return int(getattr(answer, "number", answer))
    except (TypeError, ValueError):
        raise ConfigError(
            f"policy: gave {answer!r}; give the number of a request or an engine, or its view"
        ) from None


def _pairs(answer: Iterable[tuple[Any, Any]]) -> list[tuple[int, int]]:
    pairs = list(answer) if isinstance(answer, Iterable) else [answer]
    if wrong := [pair for pair in pairs if not (isinstance(pair, Sequence) and len(pair) == 2)]:
        raise ConfigError(
            f"policy: gave {wrong[0]!r}; give pairs: for `batch` a request and its tokens, for `migrate` a "
            "request and its engine"
        )
    return [(_number(a), _number(b)) for a, b in pairs]


def _engine(answer: Any) -> int:
    return HOLD if answer is None else _number(answer)


def _share(answer: float | None) -> float:
    if answer is None:
        return -1.0
    if not 0 <= answer <= 1:
        raise ConfigError(f"policy: divide gave {answer!r}; give a share from 0 to 1, or None")
    return float(answer)


def _on(answer: SupportsIndex | Iterable[int], count: int) -> list[int]:
    """The engines that take requests: the first so many, or those that are named."""
    if isinstance(answer, SupportsIndex):
        return list(range(min(int(answer), count)))
    return [_number(e) for e in answer]


def policy_from(text: str, option: str = "--policy") -> Any:
    """An instance of the class that `FILE.py:CLASS` or `package.module:CLASS` names: a policy or a source."""
    place, _, name = text.rpartition(":")
    where = f"{option} {text!r}"
    if not place or not name:
        raise ConfigError(f"{where}: should look like FILE.py:CLASS")
    named_class = getattr(_module(place, where), name, None)
    if not callable(named_class):
        raise ConfigError(f"{where}: {place} has no class {name}")
    return named_class()


def _module(place: str, where: str) -> Any:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise ConfigError(f"{where}: {error}") from None
    return run_file(Path(place), where)
