"""Renting GPUs for several models: how many of each type, chosen for all models together or one by one.

A model's rate depends on the number of GPUs that it gets of each type. `best_rates` makes a table of that for
one type; `together` and `one_by_one` choose the numbers. `two_stages_lose_nothing` tries both stages against
every combination.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ChakraError
from chakrakit.serving import ServiceLevel, ServingSession, serving_of
from chakrakit.serving.requests import requests_from

Tables = list[list[F64]]
"""For each model and GPU type: requests a second with 0, 1, 2, … GPUs."""
LEVEL = "ttft=1000,tpot=60"
"""Milliseconds to the first token and for each further one."""


@cache
def engine_of(model: str, gpu: str, tp: int) -> ServingSession:
    """A replica; step times that it has worked out once serve every stream."""
    return serving_of(model, gpu, "poisson{rate=1,n=1}", "vllm", tp=tp, compute="roofline")


@cache
def replica_rate(model: str, gpu: str, tp: int, prompt: int, output: int, seed: int) -> float:
    """Requests a second with 95 % within the level; 0 where the model does not fit."""
    low, high, requests = 0.0, 64.0, 200
    for _ in range(6):
        rate = (low + high) / 2
        text = f"poisson{{rate={rate},n={requests},prompt={prompt},output={output},seed={seed}}}"
        try:
            serving = replace(engine_of(model, gpu, tp), stream=requests_from(text))
            missed = serving.served(ServiceLevel.parse(LEVEL), may_miss=requests // 20)
        except ChakraError:
            return 0.0
        low, high = (low, rate) if missed.outcome.given_up else (rate, high)
    return low


def replicas(
    model: str, gpu: str, most_tp: int, prompt: int, output: int, seed: int
) -> dict[int, float]:
    """GPUs of a replica → its rate."""
    sizes = range(1, most_tp + 1)
    return {tp: replica_rate(model, gpu, tp, prompt, output, seed) for tp in sizes}


def best_rates(rates: dict[int, float], most_gpus: int) -> F64:
    """The first stage: with 0, 1, 2, … GPUs, the best mix of replicas by tensor parallelism."""
    table = np.zeros(most_gpus + 1)
    for count in range(1, most_gpus + 1):
        with_one = [table[count - tp] + rate for tp, rate in rates.items() if tp <= count]
        table[count] = max(table[count - 1], *with_one)
    return table


def options_of(tables: list[F64], demand: float, have: I64) -> tuple[I64, F64]:
    """Numbers of GPUs of each type that a model may get, and the requests a second that it serves."""
    counts = np.array(list(product(*(range(int(h) + 1) for h in have))))
    served = sum(table[counts[:, g]] for g, table in enumerate(tables))
    served = np.minimum(served, demand)
    useful = np.ones(len(counts), bool)
    for g in range(len(have)):  # one GPU fewer would serve as much
        fewer = counts.copy()
        fewer[:, g] = np.maximum(0, fewer[:, g] - 1)
        less = np.minimum(sum(t[fewer[:, i]] for i, t in enumerate(tables)), demand)
        useful &= (counts[:, g] == 0) | (less < served)
    return counts[useful], served[useful]


def together(tables: Tables, demands: F64, have: I64, prices: F64) -> tuple[float, float]:
    """The second stage: the most requests served by all models, and the least that this costs."""
    served = np.full(have + 1, -np.inf)  # by the numbers of GPUs of each type that are in use
    served.flat[0] = 0.0
    for model, demand in enumerate(demands):
        before, served = served, np.full(have + 1, -np.inf)
        for counts, more in zip(*options_of(tables[model], demand, have), strict=True):
            target = tuple(slice(int(c), None) for c in counts)
            source = tuple(slice(0, int(h - c) + 1) for h, c in zip(have, counts, strict=True))
            served[target] = np.maximum(served[target], before[source] + more)
    cost = sum(p * i for p, i in zip(prices, np.indices(served.shape), strict=True))
    return float(served.max()), float(cost[served >= served.max() - 1e-9].min())


def one_by_one(
    tables: Tables, demands: F64, have: I64, prices: F64, order: list[int]
) -> tuple[float, float]:
    """Each model takes its own best of what the ones before it left."""
    left, total, cost = have.copy(), 0.0, 0.0
    for model in order:
        counts, served = options_of(tables[model], demands[model], left)
        spent = counts @ prices
        best = np.lexsort((spent, -served))[0]
        left = left - counts[best]
        total, cost = total + float(served[best]), cost + float(spent[best])
    return total, cost


@cache
def two_stages_lose_nothing(seed: int) -> float:
    """The share of 40 small markets in which two stages do as well as every combination tried at once."""
    rng = np.random.default_rng([seed, 71])
    return float(np.mean([_same(rng) for _ in range(40)]))


def _same(rng: np.random.Generator) -> bool:
    rates = rng.uniform(1, 10, (2, 2, 2)) * np.array([1, 2.2])  # model, type, parallelism
    have, prices = rng.integers(1, 4, 2), rng.uniform(1, 6, 2)
    demands = rng.uniform(3, 15, 2)
    tables = [
        [best_rates({1: r[0], 2: r[1]}, int(h)) for r, h in zip(m, have, strict=True)]
        for m in rates
    ]
    served, cost = together(tables, demands, have, prices)
    counts = np.array(list(product(range(4), range(2), repeat=4))).reshape(-1, 2, 2, 2)
    used = (counts * np.array([1, 2])).sum(axis=(1, 3))
    counts, used = counts[(used <= have).all(axis=1)], used[(used <= have).all(axis=1)]
    every = np.minimum((counts * rates).sum(axis=(2, 3)), demands).sum(axis=1)
    cheapest = (used @ prices)[every >= every.max() - 1e-9].min()
    return bool(abs(every.max() - served) < 1e-9 and abs(cheapest - cost) < 1e-9)
