"""The result of serving a stream: figures over requests, engines, the cache, energy and price."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError
from chakrakit.machines.residuals import served_intervals
from chakrakit.results import Bars, Result, Spread, milliseconds_text
from chakrakit.serving.calibration import FITTED_TO
from chakrakit.trace.timing import HORIZON_NS
from chakrakit.workloads.generate import ModelFigures

_MOST_MS = HORIZON_NS // 10**6


class ServiceLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most ms that a request may take to its first token, per token after it, and in all.

    None stands for no limit.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> ServiceLevel:
        """From `ttft=500,tpot=50`."""
        if not text:
            return cls()
        fields: dict[str, float] = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or name.strip() not in cls.__struct_fields__:
                raise ConfigError(f"--slo {text!r}: {part!r} should be ttft=MS, tpot=MS or e2e=MS")
            try:
                fields[name.strip()] = float(value)
            except ValueError:
                raise ConfigError(
                    f"--slo {text!r}: {value.strip()!r} is not a number; give milliseconds without a unit, "
                    f"as in {name.strip()}=500"
                ) from None
        level = cls(**fields)
        for name in fields:
            if (limit := getattr(level, name)) is None or not 0 <= limit <= _MOST_MS:
                raise ConfigError(
                    f"--slo {text!r}: {name} is {limit}; give milliseconds, 0 to {_MOST_MS:,}"
                )
        return level


_BINS_PER_OCTAVE = 64
"""Bins of the core's histogram of gaps for each doubling of time: percentiles are exact to 1.6 %."""


class KvCache(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The cache of one engine, in tokens; `peak_tokens` is the fullest engine's."""

    capacity_tokens: int
    peak_tokens: int
    mean_tokens: float
    block_size: int
    blocks: int
    bytes_per_token: int
    arithmetic: str


class PoolFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One pool of engines."""

    role: str
    engines: int
    devices: int
    steps: int
    busy: float
    """Share of the time in which its engines ran a step."""
    mean_batch: float
    """Requests in a step, on average."""
    mean_tokens: float
    kv: KvCache
    device: str = ""
    """What its engines run on."""
    on: float = 1.0
    """Share of the time in which its engines were switched on."""


class TenantFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one tenant, or of one priority."""

    requests: int
    finished: int
    ttft_ms: Spread
    tpot_ms: Spread | None
    """None where no request had a second token."""
    e2e_ms: Spread
    output_tokens_per_s: float
    attained: float
    """Share of its requests that met the service level."""


class ServeResult(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What `chakra serve` prints."""

    requests: int
    finished: int
    duration_s: float
    ttft_ms: Spread
    tpot_ms: Spread | None
    """Of requests with a second token; None where there are none."""
    itl_ms: Spread | None
    """Single gaps between tokens, percentiles to within 1.6 %; None where there are no gaps."""
    e2e_ms: Spread
    queue_ms: Spread
    """From arrival to the first step, with what the engine's front end takes before a request queues."""
    output_tokens_per_s: float
    total_tokens_per_s: float
    requests_per_s: float
    goodput: float
    """Requests a second that met the service level; all finished ones where there is none."""
    attained: float
    """Share of the requests that met the service level."""
    kv: KvCache
    preemptions: int
    swaps: int
    cache_hit_rate: float
    steps: int
    mean_batch: float
    energy_joules: float | None
    """The energy of the devices over the run; None where a device does not say what it draws."""
    joules_per_token: float | None
    price: float | None
    """By the devices' price per hour; None where a device has none."""
    price_per_million_tokens: float | None
    devices: int
    pools: list[PoolFigures]
    step_times: str
    """Where step times come from."""
    energy_by_class: dict[str, float] = {}
    """Joules by class of work; `idle` is the energy that devices always take."""
    facility_joules: float | None = None
    """The energy with the building and the devices' share of their servers: 1 of 8 devices has an eighth."""
    carbon_kg: float | None = None
    """CO2 equivalent of the facility's energy."""
    clock_mhz: float | None = None
    """The lowest clock of any engine's devices; None without power constants."""
    highest_clock_mhz: float | None = None
    """The highest one: more than `clock_mhz` where engines of two phases differ in theirs."""
    drafts_accepted: float | None = None
    moves: int = 0
    """Caches moved from prefill to decode engines."""
    move_ms: Spread | None = None
    groups: int = 0
    """Groups of requests that are one task."""
    group_ms: Spread | None = None
    """From the first arrival of a group to its last end."""
    deadlines_met: float | None = None
    """Share of the requests with a deadline that ended in time."""
    tenants: dict[str, TenantFigures] = {}
    """Figures by tenant, where the stream says whom requests are for."""
    frontend_ms: float = 0.0
    """What of `queue_ms` the engine's front end takes, before a request queues."""
    priorities: dict[str, TenantFigures] = {}
    """Figures by priority, where requests have several; the lowest number goes first."""
    refilled_tokens: int = 0
    """Tokens brought back into a cache that a policy made larger."""
    notes: list[str] = []
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    """For `ttft_ms`, `tpot_ms` and `e2e_ms` and their mean and percentiles, where 90 of 100 measured ones
    should lie by what published runs of the engine showed; empty where none are known."""
    model: ModelFigures | None = None
    """The model, and the precision in which it was served."""

    def picture(self) -> Bars:
        """Median, p95 and p99 of the latencies."""
        spreads = {
            "first token": self.ttft_ms,
            "per token": self.tpot_ms,
            "end to end": self.e2e_ms,
        }
        figures = [
            (f"{name} {label}", getattr(spread, label))
            for name, spread in spreads.items()
            if spread is not None
            for label in ("p50", "p95", "p99")
        ]
        rows = [(name, value, f"{milliseconds_text(value)} ms") for name, value in figures]
        return Bars("latencies", rows)


def with_intervals(result: ServeResult, machine: str, engine: str) -> ServeResult:
    """The result with the intervals of its figures, as published runs of the engine showed.

    There are none where step times do not come from constants that were fitted to such runs: how far other
    sources are off in an engine is not known.
    """
    if FITTED_TO not in result.step_times:
        return result
    spreads = {n: getattr(result, n) for n in ("ttft_ms", "tpot_ms", "e2e_ms")}
    figures = {n: msgspec.structs.asdict(s) for n, s in spreads.items() if s is not None}
    return msgspec.structs.replace(result, intervals=served_intervals(machine, engine, figures))


def gap_spread(totals: list[dict[str, Any]]) -> Spread | None:
    """The mean of the gaps between tokens, and their percentiles from the engines' histograms."""
    gaps, counts = _gaps(totals)
    if not counts.any():
        return None
    upto = np.cumsum(counts)
    percentiles = [gaps[np.searchsorted(upto, q * upto[-1])] for q in (0.5, 0.9, 0.95, 0.99)]
    mean = sum(t["gap_time"] for t in totals) * 1e-9 / upto[-1]
    return Spread(float(mean), *(float(f) for f in percentiles))


def shortest_gap(totals: list[dict[str, Any]]) -> float:
    """The shortest time between two tokens (ms), as engines have that hold few requests; 0 without any."""
    gaps, counts = _gaps(totals)
    return float(gaps[np.argmax(counts > 0)]) if counts.any() else 0.0


def _gaps(totals: list[dict[str, Any]]) -> tuple[F64, I64]:
    """The middles (ms) of the bins of the engines' histograms, and how many gaps lie in each."""
    filled = [np.asarray(t["gaps"], np.int64) for t in totals if len(t["gaps"])]
    counts = np.sum(filled, axis=0) if filled else np.zeros(0, np.int64)
    octave, part = np.divmod(np.arange(len(counts)), _BINS_PER_OCTAVE)
    return 2.0**octave * (1 + (part + 0.5) / _BINS_PER_OCTAVE) * 1e-9, counts


def within_level(level: ServiceLevel, ttft: F64, tpot: F64, e2e: F64) -> NDArray[np.bool_]:
    """Which requests are within a service level."""
    good = np.ones(len(ttft), np.bool_)
    for values, most in ((ttft, level.ttft), (tpot, level.tpot), (e2e, level.e2e)):
        if most is not None:
            good &= values <= most
    return good
