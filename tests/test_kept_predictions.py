"""Some three hundred predictions, kept beside the tests: a change that moves one by more than 2 % shows it.

They are what users' commands print: collectives of every preset (`chakra collective`), single products,
training steps of every preset and framework (`chakra generate`, `chakra simulate`), and ways of experts.
Where predictions are meant to move, `CHAKRA_KEEP_RESULTS=1 pytest -k kept` writes them anew, and the
difference of tests/data/predictions.json says which did.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache

import pytest

import chakrakit as ck
from chakrakit.machines import overview
from support.paths import DATA

FILE = DATA / "predictions.json"
MOVES = 0.02
"""The share by which a prediction may move unseen: less than any of them is known to."""
PRESETS = [p.name for p in overview()]
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
SIZES = (4096, 1 << 20, 64 << 20)
PRODUCTS = {
    "square": (4096, 4096, 4096),
    "thin": (16, 8192, 8192),
    "narrow": (8192, 1024, 8192),
    "large": (16384, 8192, 28672),
    "small": (512, 1024, 1024),
}
TRAINING = {"model": "llama3-8b", "layers": 2, "seq": 2048, "global_batch": 8, "dp": 8}
EXPERTS = {"model": "qwen3-30b-a3b", "layers": 2, "seq": 2048, "global_batch": 16, "dp": 16}
PLANS = {
    "tp 4, pp 2": {"dp": 2, "tp": 4, "pp": 2},
    "fsdp": {"dp": 16, "data": "fsdp"},
    "cp 4": {"dp": 4, "cp": 4},
    "fp8": {"dp": 16, "matmul_dtype": "fp8"},
    "recomputed": {"dp": 16, "recompute": "full"},
}
WAYS = {
    "a copy for each": {},
    "once for each rank": {"exchange": "once"},
    "once for each node": {"exchange": "once", "exchange_node": 8},
    "gathered": {"exchange": "gather"},
}
FRAMEWORKS = ("", "megatron", "megatron-eager", "megatron-lm", "llm-foundry", "torchtitan")


def collectives() -> Iterator[tuple[str, float]]:
    for preset in PRESETS:
        machine = loaded(preset)
        for kind in COLLECTIVES if machine.library else COLLECTIVES[:1]:
            for row in ck.collective(kind, machine, min(8, machine.size), SIZES).rows:
                yield f"{kind} of {row.bytes} bytes on {preset}, us", row.time_us


def products() -> Iterator[tuple[str, float]]:
    for name, (m, n, k) in PRODUCTS.items():
        t = ck.TraceBuilder()
        work = {"num_ops": 2 * m * n * k, "tensor_size": 2 * (m * k + k * n + m * n)}
        t.comp(name, op_type="matmul", dtype="bf16", inputs_shapes=f"[[{m},{k}],[{k},{n}]]", **work)
        traces = ck.TraceSet([t.build()])
        for preset in PRESETS:
            took = ck.simulate(traces, loaded(preset)).makespan_ns / 1e3
            yield f"{name} product on {preset}, us", took


def steps() -> Iterator[tuple[str, float]]:
    generated = ck.generate(**TRAINING).traces
    for preset in PRESETS:
        yield f"Llama-3 step on {preset}, ms", milliseconds(generated, preset)
    for framework in FRAMEWORKS:
        for preset in ("dgx-a100", "dgx-h100", "dgx-b200"):
            took = milliseconds(generated, preset, framework=framework)
            yield f"Llama-3 step on {preset} in {framework or 'kernels alone'}, ms", took
    for name, plan in PLANS.items():
        traces = ck.generate(**TRAINING | {"global_batch": 16} | plan).traces
        for preset in ("dgx-h100:2", "dgx-b200:2"):
            yield f"Llama-3 step, {name}, on {preset}, ms", milliseconds(traces, preset)


def experts() -> Iterator[tuple[str, float]]:
    for name, way in WAYS.items():
        traces = ck.generate(**EXPERTS, ep=16, **way).traces
        for preset in ("dgx-h100:2", "dgx-b200:2", "gb200-nvl72"):
            yield f"Qwen3 step, {name}, on {preset}, ms", milliseconds(traces, preset)


def milliseconds(traces: ck.TraceSet, preset: str, **options: str) -> float:
    return ck.simulate(traces, loaded(preset), **options).makespan_ns / 1e6


@cache
def loaded(preset: str) -> ck.Machine:
    return ck.load_machine(preset)


@pytest.mark.slow
@pytest.mark.parametrize("part", [collectives, products, steps, experts])
def test_kept_predictions_move_by_less_than_two_percent(part):
    predicted = {name: float(f"{figure:.4g}") for name, figure in part()}
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("CHAKRA_KEEP_RESULTS"):
        FILE.write_text(json.dumps({**kept, part.__name__: predicted}, indent=1) + "\n")
        return
    before = kept[part.__name__]
    moved = {
        name: f"{before[name]} -> {now} ({now / before[name] - 1:+.1%})"
        for name, now in predicted.items()
        if name in before and abs(now / before[name] - 1) > MOVES
    }
    assert not moved
    assert predicted.keys() == before.keys()


def test_there_are_about_three_hundred_kept_predictions():
    assert sum(map(len, json.loads(FILE.read_text()).values())) >= 280
