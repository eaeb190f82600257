"""Policies: decisions of an engine that a user's object may take over, and what it may look at.

A policy is an object with any of these methods; the engine decides where one is missing.

    admit(request, engine) -> bool                   may this waiting request start now?
    batch(running, waiting, engine) -> [(request number, most tokens), …]    what a step works on, in order
    preempt(candidates, engine) -> request number    who gives way when blocks run out
    evict(blocks, engine) -> block number            which cached block is reused, of those nobody holds
    route(request, engines) -> engine number         where a new request goes
    place(request, engines) -> engine number         which decode engine takes a prefilled request
    scale(engines, now_s) -> int                     how many engines take new requests; every `interval_s`
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.machines.device import PICO
from chakrakit.serving.requests import RequestStream

NAMES = ("admit", "batch", "preempt", "evict", "route", "place", "scale")


class RequestView(NamedTuple):
    """A request as a policy sees it, with its output length, which a real engine does not know."""

    number: int
    prompt: int
    output: int
    priority: int
    computed: int
    generated: int
    cached: int
    blocks: int
    arrived_s: float
    preempted: int


class EngineView(NamedTuple):
    """An engine as a policy sees it. `matched` gives the prompt tokens of a request that it has cached."""

    number: int
    free_blocks: int
    total_blocks: int
    waiting: int
    running: int
    now_s: float
    matched: Callable[[int], int]


@runtime_checkable
class ServingPolicy(Protocol):
    """Anything with at least one of the methods above."""


class _Eyes:
    """Makes views of a cluster's current state."""

    def __init__(self, cluster: Any, stream: RequestStream) -> None:
        self._cluster, self._stream = cluster, stream

    def request(self, number: int) -> RequestView:
        computed, generated, cached, blocks, arrived, _first, preempted = self._cluster.request(
            number
        )
        s = self._stream
        sizes = (int(s.prompt[number]), int(s.output[number]), int(s.priority[number]))
        return RequestView(
            number, *sizes, computed, generated, cached, blocks, arrived * PICO, preempted
        )

    def engine(self, number: int) -> EngineView:
        free, total, waiting, running = self._cluster.engine(number)
        return EngineView(
            number,
            free,
            total,
            waiting,
            running,
            self._cluster.now() * PICO,
            lambda request: int(self._cluster.matched(number, request)),
        )

    def requests(self, numbers: list[int]) -> list[RequestView]:
        return [self.request(n) for n in numbers]


def hooks_of(policy: Any, stream: RequestStream) -> Callable[[Any], core.ServingHooks]:
    """The policy's methods as functions of the core."""
    if not any(callable(getattr(policy, name, None)) for name in NAMES):
        raise ConfigError(f"policy {policy!r} has none of the methods {', '.join(NAMES)}")

    def hooks(cluster: Any) -> core.ServingHooks:
        core_hooks = core.ServingHooks()
        for name, function in _functions(policy, _Eyes(cluster, stream)).items():
            if callable(getattr(policy, name, None)):
                getattr(core_hooks, name)(function)
        core_hooks.interval = _interval(policy)
        return core_hooks

    return hooks


def _interval(policy: Any) -> int:
    """Picoseconds between two calls of the policy's `scale`."""
    seconds = float(getattr(policy, "interval_s", 1.0))
    if not 1e-6 <= seconds < 1e6:
        raise ConfigError(f"policy: interval_s is {seconds}; give seconds from 1e-6 to 1e6")
    return round(seconds / PICO)


def _functions(policy: Any, see: _Eyes) -> dict[str, Any]:
    return {
        "admit": lambda e, r: bool(policy.admit(see.request(r), see.engine(e))),
        "batch": lambda e, run, wait: [
            (int(r), int(n))
            for r, n in policy.batch(see.requests(run), see.requests(wait), see.engine(e))
        ],
        "preempt": lambda e, rs: int(policy.preempt(see.requests(rs), see.engine(e))),
        "evict": lambda e, blocks: int(policy.evict(blocks, see.engine(e))),
        "route": lambda r, es: int(policy.route(see.request(r), [see.engine(e) for e in es])),
        "place": lambda r, es: int(policy.place(see.request(r), [see.engine(e) for e in es])),
        "scale": lambda now: int(policy.scale(_all(see), now * PICO)),
    }


def _all(see: _Eyes) -> list[EngineView]:
    engines: list[EngineView] = []
    while True:
        try:
            engines.append(see.engine(len(engines)))
        except IndexError:
            return engines


def policy_from(text: str) -> Any:
    """An instance of the policy class that `FILE.py:CLASS` or `package.module:CLASS` names."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ConfigError(f"--policy {text!r}: should look like FILE.py:CLASS")
    policy_class = getattr(_module(place, text), name, None)
    if not callable(policy_class):
        raise ConfigError(f"--policy {text!r}: {place} has no class {name}")
    return policy_class()


def _module(place: str, text: str) -> Any:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise ConfigError(f"--policy {text!r}: {error}") from None
    if not Path(place).is_file():
        raise ConfigError(f"--policy {text!r}: no file {place}")
    spec = importlib.util.spec_from_file_location("chakra_policy", place)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--policy {text!r}: {place} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
