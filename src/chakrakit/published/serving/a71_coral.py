"""A71, Coral: which GPUs to rent for several models, and how each is served on them, chosen together.

Rates of a replica (model, GPU, tensor parallelism) come from serving simulated requests at rising load until
5 % of them miss their service level. The idea solves the rental in two stages: for each model the best rate
of every number of GPUs of a type, then the numbers for all models at once. That this loses nothing is
tested against every combination on 40 small random markets a seed, 200 over the five seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.machines import load_machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.rental import (
    Tables,
    best_rates,
    one_by_one,
    replicas,
    together,
    two_stages_lose_nothing,
)

MODELS = {
    "llama-3.1-8b": (512, 128, 8.0),
    "qwen3-14b": (1024, 128, 4.0),
    "qwen3-30b-a3b": (1024, 256, 4.0),
}
"""Tokens of prompts and answers, and requests a second at load 1."""
TYPES = ("dgx-a100", "dgx-h100", "rtx-pro-6000", "l40s-pcie")


@cache
def tables_of(models: int, types: int, each: int, most_tp: int, seed: int) -> Tables:
    """Rates of all models on all types; what was measured once is not measured again."""
    return [
        [best_rates(replicas(m, g, most_tp, *MODELS[m][:2], seed), each) for g in TYPES[:types]]
        for m in list(MODELS)[:models]
    ]


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Requests for a dollar where all are served, or requests a second where there are not enough GPUs."""
    tables = tables_of(case["models"], case["types"], case["each"], case["most_tp"], seed)
    have = np.full(case["types"], case["each"])
    if setting["only"] >= 0:
        have = np.where(np.arange(len(have)) == setting["only"], have, 0)
    listed = np.array([load_machine(g).devices[0].price_per_hour for g in TYPES[: len(have)]])
    prices = listed.mean() * (listed / listed.mean()) ** case["spread"]
    demands = np.array([row[2] * case["load"] for row in list(MODELS.values())[: len(tables)]])
    if setting["choose"] == "together":
        served, cost = together(tables, demands, have, prices)
    else:
        order = sorted(range(len(tables)), key=lambda m: setting["order"] * float(demands[m]))
        served, cost = one_by_one(tables, demands, have, prices, order)
    all_served = served >= demands.sum() - 1e-9
    score = served if case["goal"] == "goodput" else 3600 * served / cost if all_served else 0.0
    exact = {"lossless": two_stages_lose_nothing(seed)} if setting["choose"] == "together" else {}
    return {"score": score, "served": served / demands.sum(), **exact}


def cases(quick: bool) -> Sequence[Case]:
    """Enough GPUs at two price spreads, too few of them, and one type alone."""
    if quick:
        small = {"models": 2, "types": 2, "most_tp": 1, "each": 3, "load": 1, "spread": 1}
        return [
            {"goal": "cost", **small},
            {"goal": "goodput", **small, "each": 1, "load": 4},
            {"goal": "cost", **small, "types": 1},
        ]
    size = {"models": 3, "types": 4, "most_tp": 2}
    cost = [
        {"goal": "cost", **size, "each": 6, "load": load, "spread": spread}
        for load in (1, 3)
        for spread in (1, 2)
    ]
    scarce = [
        {"goal": "goodput", **size, "each": each, "load": 6, "spread": 1} for each in (1, 2, 4)
    ]
    return [*cost, *scarce, {**cost[0], "types": 1}, {**scarce[1], "types": 1}]


def one(choose: str, order: int = 1, only: int = -1) -> Setting:
    """How GPUs are chosen: for all models together or in an order, of all types or of one."""
    return {"choose": choose, "order": order, "only": only}


STUDY = Study(
    id="A71",
    system="Coral",
    family="serving",
    strength="strong",
    claims=[
        Claim("serving costs up to 2.79 times less", 2.79, 2.79, where={"goal": "cost"}),
        Claim(
            "up to 2.39 times the goodput where GPUs are scarce",
            2.39,
            2.39,
            where={"goal": "goodput"},
        ),
        Claim("solving in two stages loses nothing", 1.0, 1.0, figure="lossless"),
    ],
    rests_on={
        "rates of engines under a service level": "serving/session.py",
        "prices of GPUs": "machines/presets/dgx-h100.yaml",
    },
    cases=cases,
    sides={
        "Coral, together": [one("together")],
        "model by model": [one("one by one", order) for order in (1, -1)],
        "one GPU type": [one("together", only=g) for g in range(len(TYPES))],
        "H100s only": [one("one by one", only=1)],
    },
    idea="Coral, together",
    untuned=["H100s only"],
    measure=measure,
    better=("score", "max"),
    health="served",
    gone=lambda case: bool(case["types"] == 1),
    ablate={"choosing for all models together": {"choose": "one by one"}},
    predictions={
        "two stages do as well as every combination on every small market": lambda t: (
            least(t.figure("lossless")) - 0.999
        ),
        "the gain over one GPU type grows with the spread of prices": lambda t: (
            least(t.gains("one GPU type", goal="cost", spread=2, types=4))
            - most(t.gains("one GPU type", goal="cost", spread=1, types=4))
        ),
        "the gain over one GPU type grows with scarcity": lambda t: (
            most(t.gains("one GPU type", goal="goodput", each=1))
            - most(t.gains("one GPU type", goal="goodput", each=4))
        ),
        "there is no gain with one GPU type": lambda t: 0.001 - most(abs(t.gains(types=1) - 1)),
    },
    decides="the comparator. Over H100s alone the claimed figures are reached; over one well-chosen type a "
    "few per cent are left; over models that choose in turn nothing, as they seldom want the same GPUs.",
    cannot_say="Prices and availability of spot markets, and models that share an engine. Rates are those "
    "of this package's engines, with requests of one length for each model.",
)
