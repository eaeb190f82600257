"""A40, Dooly: operators of many models profiled once, in place of every model from scratch.

An operator is known by its kind and by the sizes that the model fixes; how many tokens a request brings is
swept for each alike. What differs between the sides is whether one database serves all models and degrees of
tensor parallelism, or every configuration has its own. The seed draws which models of a pool are profiled.
What it takes to profile an operator was measured on an H200, at three sizes with 30 runs each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import workload_of

POOLS = {
    "llama": [
        "llama3-8b",
        "llama3.1-8b",
        "llama3-70b",
        "llama3.1-70b",
        "llama3.1-405b",
        "llama2-70b",
    ],
    "mixed": [
        *("llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "llama3.1-8b"),
        *("llama3.1-70b", "llama3.2-1b", "llama3.2-3b", "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b"),
        *("qwen3-8b", "qwen3-14b", "qwen3-32b", "gpt3-6.7b", "gpt3-13b", "mixtral-8x7b"),
    ],
}
TOKENS = 256
"""Of the request whose operators are listed."""
MEASURED = Path(__file__).parent / "h200_profiling.json"
"""Seconds to profile an operator on an H200, by kind and sizes; `benchmarks/study_profiling.py` writes it."""
Operator = tuple[str, str, float]
"""Its kind, the sizes that the model fixes, and seconds to profile it."""


@cache
def measured() -> dict[str, dict[str, float]]:
    """Seconds to profile an operator, by kind, then by the sizes that the model fixes."""
    seconds: dict[str, dict[str, float]] = msgspec.json.decode(MEASURED.read_bytes())["seconds"]
    return seconds


def operator_rows(model: str, tp: int) -> list[tuple[str, str]]:
    """Kind and sizes of the operators of one layer's forward pass and of the head."""
    fields = {"layers": 1, "tp": tp, "seq": TOKENS, "global_batch": 1}
    trace = generate(workload_of(None, model, fields)).trace(0)
    columns = ["op_type", "inputs_shapes", "num_ops", "tensor_size", "phase"]
    return [
        (row["op_type"], row["inputs_shapes"] or f"{row['num_ops']} {row['tensor_size']}")
        for row in trace.nodes.select(columns).to_pylist()
        if row["phase"] == "forward" and row["num_ops"]
    ]


@cache
def operators(model: str, tp: int) -> tuple[Operator, ...]:
    """Those of a model, with what it takes to profile them."""
    rows = operator_rows(model, tp)
    return tuple((kind, fixed, measured()[kind][fixed]) for kind, fixed in rows)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of profiling, and how many operators that is."""
    pool = POOLS[case["pool"]]
    chosen = np.random.default_rng([seed, 40]).permutation(pool)[: case["models"]]
    total, count = 0.0, 0
    known: set[tuple[str, str]] = set()
    for model in chosen:
        for tp in range(case["degrees"]):
            if setting["database"] != "shared":
                known = set()
            for kind, fixed, seconds in operators(str(model), 2**tp):
                if setting["database"] == "none" or (kind, fixed) not in known:
                    known.add((kind, fixed))
                    total, count = total + seconds, count + 1
    return {"seconds": total, "operators": float(count), "per_s": count / total}


def cases(quick: bool) -> Sequence[Case]:
    """Twelve models of many families and six of one, at one to four degrees of parallelism; and one alone."""
    if quick:
        twelve = {"pool": "mixed", "models": 4, "degrees": 1}
        return [twelve, {"pool": "llama", "models": 3, "degrees": 1}, {**twelve, "models": 1}]
    found = [{"pool": "mixed", "models": 12, "degrees": d} for d in (1, 2, 4)]
    found += [{"pool": "llama", "models": 6, "degrees": d} for d in (1, 4)]
    return [*found, {"pool": "mixed", "models": 1, "degrees": 1}]


STUDY = Study(
    id="A40",
    system="Dooly",
    family="methodology",
    strength="strong",
    claims=[
        Claim(
            "56.4 % fewer GPU-hours of profiling over 12 models",
            1 / 0.436,
            1 / 0.436,
            where={"pool": "mixed"},
        ),
        Claim("TTFT within 5 % and TPOT within 8 %", 0.05, 0.08, "not simulable"),
    ],
    rests_on={
        "operators of models and their sizes": "workloads/generate/generator.py",
        "times of profiling, measured": "published/methodology/h200_profiling.json",
    },
    cases=cases,
    sides={
        "one database": [{"database": "shared"}],
        "each model by itself": [{"database": "own"}],
        "every call": [{"database": "none"}],
    },
    idea="one database",
    untuned=["every call"],
    measure=measure,
    better=("seconds", "min"),
    health="per_s",
    gone=lambda case: bool(case["models"] == 1),
    ablate={"what models share": {"database": "own"}},
    predictions={
        "12 models share more than half of the profiling": lambda t: (
            least(t.gains(pool="mixed", models=12)) - 2
        ),
        "one family shares more than many": lambda t: (
            most(t.gains(pool="llama", degrees=1))
            - most(t.gains(pool="mixed", degrees=1, models=12))
        ),
        "nothing is shared by one model": lambda t: 0.02 - most(abs(t.gains(models=1) - 1)),
    },
    decides="the sizes that models have in common: two widths share nothing, so that the figure is that of "
    "the choice of models, and twelve of one family would share more.",
    cannot_say="Attention backends, which keep state of their own; how well a simulation with such a profile "
    "meets a real engine is in docs/accuracy.md.",
)
