"""A workload that is served: a stream of requests, an engine and a layout, in the words of `chakra serve`."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import is_program
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.fabric import Machine
from chakrakit.passes.base import head_and_inside
from chakrakit.results import Result
from chakrakit.serving import STREAM_CHANGES, EngineLayout, ServingSession, serving_of
from chakrakit.serving.results import ServiceLevel

_NOT_HERE = ("machine", "policy", "faults", "layout", "codecs", "rank_faults", "settings")
_TEXTS = ("engine", "requests")
"""Settings of the form name{field=value}, whose fields an axis may set."""


class ServedWorkload(msgspec.Struct, frozen=True):
    """`workload: {serve: {model: M, requests: R, engine: E, …}}` at one point."""

    settings: dict[str, Any]
    content: dict[str, str]
    """Hashes of the files that settings name: a point with another file's content is another point."""

    def serving(self, machine: Machine) -> ServingSession:
        """Everything resolved and checked; a ConfigError says what cannot be."""
        arguments = {k: v for k, v in self.settings.items() if k != "slo"}
        session = serving_of(machine=machine, **arguments)
        session.setup  # noqa: B018 - cached; checks that requests, weights and cache fit
        return session

    @property
    def level(self) -> ServiceLevel:
        """The service level, if there is one."""
        return ServiceLevel.parse(self.settings.get("slo"))


class ServedRow(Result, msgspec.Struct, kw_only=True):
    """What a served point comes to. Times are milliseconds over requests."""

    devices: int
    requests: int
    finished: int
    duration_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_device: float
    requests_per_s: float
    goodput: float
    attained: float
    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_mean_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    """None where no request had a second token."""
    e2e_mean_ms: float
    e2e_p99_ms: float
    queue_mean_ms: float
    kv_capacity_tokens: int
    kv_peak_tokens: int
    preemptions: int
    cache_hit_rate: float
    steps: int
    mean_batch: float
    energy_joules: float | None
    joules_per_token: float | None
    price: float | None
    price_per_million_tokens: float | None
    ttft_p95_ms: float | None = None
    tpot_p95_ms: float | None = None
    e2e_p95_ms: float | None = None
    """None in rows that were written before these were."""


def is_served(plain: Mapping[str, Any]) -> bool:
    """Whether a study's workload is a stream of requests."""
    return "serve" in plain


def setting_names() -> list[str]:
    """What may be set, and be an axis: the arguments of `chakrakit.serve`."""
    arguments = [n for n in inspect.signature(serving_of).parameters if n not in _NOT_HERE]
    return [
        *arguments,
        *STREAM_CHANGES,
        *(f.name for f in msgspec.structs.fields(EngineLayout)),
        "slo",
    ]


def served_of(plain: Mapping[str, Any], fields: Mapping[str, Any], folder: Path) -> ServedWorkload:
    """The workload at one point. `engine.X` and `requests.X` set options of those texts."""
    settings = dict(plain["serve"]) if isinstance(plain["serve"], dict) else {}
    for name in ("model", "requests"):
        if name not in settings and name not in fields:
            raise ConfigError(f"serve: `{name}` is missing; a study that serves needs it")
    for name, value in fields.items():
        text, dot, option = name.partition(".")
        if dot and text in _TEXTS:
            settings[text] = _with_option(str(settings.get(text, "vllm")), option, value)
        else:
            settings[name] = value
    names = setting_names()
    for name in settings:
        if name not in names:
            raise ConfigError(f"serve: no setting {name!r}; {nearest(name, names)}")
    requests = settings.get("requests")
    if isinstance(requests, str) and is_program(requests):  # a study may come from anybody
        raise ConfigError(
            f"serve: 'requests' names the program {requests!r}, and a study runs none; name a file of "
            "requests or a process, or give the program to `chakra serve --requests`"
        )
    content = {}
    for name in ("requests", "layers"):
        path = _beside(settings.get(name), folder)
        if path is not None:
            settings[name], content[name] = str(path), _hash(path)
    return ServedWorkload(settings, content)


def _with_option(text: str, option: str, value: Any) -> str:
    """A text of the form name{field=value} with one field set."""
    name, inside = head_and_inside(text)
    spelled = str(value).lower() if isinstance(value, bool) else value
    return f"{name}{{{inside}{', ' if inside.strip() else ''}{option}={spelled}}}"


def _beside(value: Any, folder: Path) -> Path | None:
    """The file or folder a setting names, beside the study or here."""
    if not isinstance(value, str) or "{" in value:
        return None
    return next((p.resolve() for p in (folder / value, Path(value)) if p.exists()), None)


def _hash(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return _hash_of(tuple((str(p), p.stat().st_mtime_ns) for p in files))


@lru_cache(maxsize=64)
def _hash_of(files: tuple[tuple[str, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, _ in files:
        digest.update(Path(name).read_bytes())
    return digest.hexdigest()


def measure_served(served: ServedWorkload, machine: Machine) -> ServedRow:
    """Serves a point's stream."""
    result = served.serving(machine).served(served.level).result()
    same = {n: getattr(result, n) for n in ServedRow.__struct_fields__ if hasattr(result, n)}
    spreads = {"ttft": result.ttft_ms, "tpot": result.tpot_ms, "e2e": result.e2e_ms}
    times: dict[str, Any] = {
        f"{n}_{k}_ms": None if s is None else getattr(s, k)
        for n, s in spreads.items()
        for k in ("mean", "p50", "p95", "p99")
    }
    times.pop("e2e_p50_ms")
    return ServedRow(
        **same,
        **times,
        queue_mean_ms=result.queue_ms.mean,
        output_tokens_per_s_per_device=result.output_tokens_per_s / result.devices,
        kv_capacity_tokens=result.kv.capacity_tokens,
        kv_peak_tokens=result.kv.peak_tokens,
    )
