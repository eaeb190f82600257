"""Serves a stream: with a model on a machine, with unlike engines, or with any service."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.serving.cluster_file import read_cluster
from chakrakit.serving.engine import EngineOptions
from chakrakit.serving.fleet import EngineSpec, Fleet
from chakrakit.serving.policies import policy_from
from chakrakit.serving.requests import RequestStream, Source
from chakrakit.serving.results import ServedRun, ServeResult, ServiceLevel, write_run
from chakrakit.serving.service import Service
from chakrakit.serving.session import STREAM_CHANGES, serve_model, stream_asked_for
from chakrakit.workloads.description import Model

_FLEET = ("router", "faults", "rank_faults", "codecs", "link_schedule", "store_schedule")
_SERVICE = ("router", "faults")


def serve(
    model: str | Model | None = None,
    machine: str | Machine | None = None,
    requests: str | RequestStream | Source | None = None,
    engine: str | EngineOptions | None = None,
    *,
    engines: Sequence[EngineSpec] = (),
    service: Service | None = None,
    cluster: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> ServeResult:
    """Serves a stream; `chakrakit.serve` explains the settings."""
    if cluster is not None:
        asked = {**settings, "engines": engines, "service": service}
        described = _described(cluster, asked)
        return serve(model, machine, requests, engine, **described)
    if requests is None:
        raise ConfigError("--requests: give a file, a process, a stream or a source")
    if settings.get("router") is None:
        settings.pop("router", None)
    if engines or service is not None:
        if engine is not None:
            raise ConfigError(
                "--engine: not with a cluster, engines or a service: each engine says its own, as `options`"
            )
        if model is not None or machine is not None or (engines and service is not None):
            raise ConfigError("give one of: a model and a machine, engines, or a service")
        name = "engines" if engines else "service"
        served = _result(name, _fleet_run if engines else _service_run)
        return served(engines or service, requests, settings)
    if model is None or machine is None:
        raise ConfigError(
            "--model and --machine: give both, or a --cluster; in Python, or `engines` or a `service`"
        )
    return serve_model(model, machine, requests, engine or "vllm", **settings)


def _described(cluster: str | os.PathLike[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with what a file says of the cluster; what both say is an error."""
    described = read_cluster(cluster)
    both = [n for n in described if settings.get(n) not in (None, (), [])]
    if both:
        raise ConfigError(
            f"{os.fspath(cluster)} says {', '.join(both)}; do not ask for them as well"
        )
    return {**settings, **described}


def _result(
    name: str, runner: Callable[..., ServedRun]
) -> Callable[[Any, Any, dict[str, Any]], ServeResult]:
    def served(what: Any, requests: Any, settings: dict[str, Any]) -> ServeResult:
        output = settings.pop("output", None)
        level = ServiceLevel.parse(settings.pop("slo", None))
        asked: Mapping[str, Any] = settings.pop("card_settings", None) or {}
        done = runner(what, requests, settings, level, output is not None)
        if output is not None:
            made = {"requests": len(done.setup.stream), "router": done.setup.router}
            card = {"name": name, "tool": "chakrakit serve", "settings": {**asked, **made}}
            write_run(done, Path(os.fspath(output)), card)
        return done.result()

    return served


def _asked(
    requests: str | RequestStream | Source, settings: dict[str, Any], names: Sequence[str]
) -> tuple[RequestStream, Source | None, Any, dict[str, Any]]:
    """The stream, its source, the policy and the settings of these names; others are an error."""
    seed = settings.pop("seed", None)
    changes = {n: settings.pop(n) for n in STREAM_CHANGES if n in settings}
    stream, source = stream_asked_for(requests, seed, **changes)
    policy = settings.pop("policy", None)
    own = {n: settings.pop(n) for n in names if n in settings}
    asked = [
        name for name, value in settings.items() if value not in _DEFAULTS.get(name, (None, (), 0))
    ]
    if "rank_faults" in asked:
        raise ConfigError(
            "rank_faults: not with a service; ranks fail alone in a model's engine, with `dp` and `ep`"
        )
    if asked:
        raise ConfigError(
            f"{', '.join(asked)}: not with engines or a service; each says it for itself"
        )
    return stream, source, policy_from(policy) if isinstance(policy, str) else policy, own


_DEFAULTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("tp", "pp", "dp", "ep", "replicas"), (1,)),
    "compute": ("auto",),
    "dtype": ("bf16",),
    "quantization": ("",),
}
"""What options say where nobody asked."""


def _fleet_run(
    engines: Sequence[EngineSpec],
    requests: str | RequestStream | Source,
    settings: dict[str, Any],
    level: ServiceLevel,
    record: bool,
) -> ServedRun:
    seed = settings.get("seed") or 0
    stream, source, policy, own = _asked(requests, settings, _FLEET)
    fleet = Fleet(specs=engines, stream=stream, source=source, policy=policy, seed=seed, **own)
    return fleet.served(level, record_steps=record)


def _service_run(
    service: Service,
    requests: str | RequestStream | Source,
    settings: dict[str, Any],
    level: ServiceLevel,
    record: bool,
) -> ServedRun:
    stream, source, policy, own = _asked(requests, settings, _SERVICE)
    return service.served(stream, level, policy=policy, source=source, record_steps=record, **own)
