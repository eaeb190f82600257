"""BLIS' workload, version 2 (YAML): clients with shares of a rate, arrivals and distributions of lengths.

`aggregate_rate` requests a second in all, `num_requests` at most; a client has `rate_fraction`, `arrival`
(poisson, gamma or weibull with `cv`, constant), `input_distribution` and `output_distribution` (gaussian,
exponential, constant, lognormal, pareto_lognormal, uniform, each with `params`), `prefix_group`, and with
`reasoning.multi_turn` sessions of max_rounds with think_time_us between them, whose prompts grow with all
that was said (`context_growth: accumulate`). Requests are drawn with the file's `seed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from chakrakit.configuration import decode_yaml
from chakrakit.errors import ConfigError, FormatError
from chakrakit.serving.requests.stream import RequestStream, stream_of

_MOST = 5_000_000
"""Requests that a file may ask for: some two minutes and 4 GB, by the README's figures of a million."""
_LONGEST = 1_000_000
"""Tokens of a prompt or output that are drawn: the tail of a Pareto distribution has no end."""
_LARGEST = 1e12
"""The largest parameter of a distribution: beyond any length, and far from where arithmetic ends."""
_MOST_VARIATION = 1e6
"""The largest coefficient of variation of gaps between requests, as for ServeGen's windows."""


class _Distribution(msgspec.Struct):
    type: str
    params: dict[str, float] = {}


class _Arrival(msgspec.Struct):
    process: str = "poisson"
    cv: float = 1.0


class _Turns(msgspec.Struct):
    max_rounds: int = 1
    think_time_us: float = 0.0
    context_growth: str = ""


class _Reasoning(msgspec.Struct):
    multi_turn: _Turns | None = None


class _Client(msgspec.Struct):
    input_distribution: _Distribution
    output_distribution: _Distribution
    id: str = ""
    rate_fraction: float = 1.0
    arrival: _Arrival = msgspec.field(default_factory=_Arrival)
    reasoning: _Reasoning | None = None


class _Workload(msgspec.Struct):
    clients: list[_Client]
    aggregate_rate: float
    num_requests: int = 1000
    seed: int = 0


@dataclass
class _Row:
    at: float
    prompt: int
    output: int
    after: int
    name: str


def is_blis(head: bytes) -> bool:
    """Whether YAML has clients and their rate in all."""
    return b"aggregate_rate:" in head and b"clients:" in head


def read_blis(data: bytes, path: str, seed: int) -> RequestStream:
    """Requests drawn as the workload says."""
    try:
        workload = msgspec.convert(
            decode_yaml(data.decode("utf-8", "replace"), path), _Workload, strict=False
        )
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not (
        0 < workload.aggregate_rate < 1e9
        and 0 < workload.num_requests <= _MOST
        and workload.clients
    ):
        raise ConfigError(f"{path}: give clients, a rate above 0 and 1 to {_MOST:,} requests")
    if workload.seed < 0:
        raise ConfigError(f"{path}: seed is {workload.seed}; give 0 or more")
    rng = np.random.default_rng((workload.seed, seed))
    sessions = [s for client in workload.clients for s in _sessions(client, workload, rng, path)]
    sessions.sort(key=lambda rows: rows[0].at)
    rows: list[_Row] = []
    for session in sessions:
        base = len(rows)
        for turn, row in enumerate(session):
            row.after = base + turn - 1 if turn else -1
            rows.append(row)
    rows = rows[: workload.num_requests]
    return stream_of(
        [r.at for r in rows],
        [r.prompt for r in rows],
        [r.output for r in rows],
        where=path,
        after=[r.after for r in rows],
        names=[r.name for r in rows],
        notes=(
            f"{len(rows):,} requests drawn by BLIS' description of {len(workload.clients)} clients",
        ),
    )


def _sessions(client: _Client, workload: _Workload, rng: Any, path: str) -> list[list[_Row]]:
    turns = (client.reasoning.multi_turn if client.reasoning else None) or _Turns()
    rounds = turns.max_rounds
    rate = workload.aggregate_rate * client.rate_fraction
    if not (rate > 0 and 1 <= rounds <= 1000 and 0 < client.rate_fraction <= 1):
        raise ConfigError(f"{path}: client {client.id!r} has a rate of {rate} and {rounds} rounds")
    count = max(1, round(workload.num_requests * client.rate_fraction / rounds))
    starts = np.cumsum(_gaps(client.arrival, rate, count, rng, path))
    prompts = _lengths(client.input_distribution, count * rounds, rng, path).reshape(count, rounds)
    outputs = _lengths(client.output_distribution, count * rounds, rng, path).reshape(count, rounds)
    said = np.cumsum(prompts + outputs, axis=1) - outputs
    grown = said if turns.context_growth == "accumulate" else prompts
    think = turns.think_time_us * 1e-6
    return [
        [
            _Row(start if turn == 0 else think, int(grown[i, turn]), int(outputs[i, turn]), -1,
                 f"{client.id}-{i}-{turn}")
            for turn in range(rounds)
        ]
        for i, start in enumerate(starts.tolist())
    ]  # fmt: skip


def _gaps(arrival: _Arrival, rate: float, count: int, rng: Any, path: str) -> Any:
    if arrival.process == "constant":
        return np.full(count, 1 / rate)
    if arrival.process in ("poisson", "gamma", "weibull"):
        if not 0 <= arrival.cv <= _MOST_VARIATION:
            raise ConfigError(f"{path}: cv is {arrival.cv}; give 0 to {_MOST_VARIATION:,.0f}")
        variation = 1.0 if arrival.process == "poisson" else max(arrival.cv, 1e-3)
        shape = 1 / variation**2
        return rng.gamma(shape, 1 / rate / shape, count)
    raise ConfigError(f"{path}: no arrival process {arrival.process!r}")


def _lengths(distribution: _Distribution, count: int, rng: Any, path: str) -> Any:
    p = distribution.params

    def value(name: str, default: float | None = None) -> float:
        if name not in p and default is None:
            raise FormatError(f"{distribution.type} needs {name!r} among its params", path=path)
        number = float(p.get(name, default))  # type: ignore[arg-type]
        if not abs(number) <= _LARGEST:
            raise FormatError(f"{name} of {distribution.type} is {number}", path=path)
        return number

    def spread(name: str, default: float | None = None) -> float:
        return max(value(name, default), 0.0) + 0.0  # no -0, which NumPy takes for less than 0

    kind = distribution.type
    if kind in ("gaussian", "normal"):
        drawn = rng.normal(value("mean"), spread("std_dev", 0.0), count)
    elif kind == "exponential":
        drawn = rng.exponential(max(value("mean"), 1e-9), count)
    elif kind in ("constant", "fixed"):
        drawn = np.full(count, value("value", p.get("mean")))
    elif kind == "uniform":
        drawn = rng.uniform(value("min"), max(value("max"), value("min")), count)
    elif kind == "lognormal":
        drawn = rng.lognormal(value("mu"), spread("sigma"), count)
    elif kind == "pareto_lognormal":
        heavy = (rng.pareto(max(value("alpha"), 1e-3), count) + 1) * value("xm")
        body = rng.lognormal(value("mu"), spread("sigma"), count)
        drawn = np.where(rng.random(count) < value("mix_weight", 0.5), heavy, body)
    else:
        raise ConfigError(f"{path}: no distribution {kind!r}")
    low, high = value("min", 1.0), value("max", _LONGEST)
    return np.clip(np.nan_to_num(np.rint(drawn), nan=1.0), max(low, 1), min(high, _LONGEST)).astype(
        np.int64
    )
