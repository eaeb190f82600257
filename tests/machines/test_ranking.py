"""A better machine is never slower by default, unless it was measured to be."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest

import chakrakit as ck
from chakrakit.serving.calibration import Constants, constants_of
from support.paths import DATA

ORDER = ("dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72", "gb300-nvl72")
"""From one to the next no rate, bandwidth or link falls."""
PAIRS = [
    *pairwise(ORDER),
    ("dgx-a100", "dgx-h100"),
    ("dgx-h800", "dgx-h100"),
    ("dgx-b200", "dgx-b300"),
]
MEASURED = ("of 4096 bytes", "of 1048576 bytes", "small product")
"""Latencies of collectives, and a product of 5 µs: by tables of both machines the newer one is slower."""
SLACK = 1.005
"""Predictions are kept with four digits, and machines with one profile differ by their corrections."""
ENGINES = ("vllm", "sglang", "trtllm")


def kept() -> dict[str, float]:
    parts = json.loads((DATA / "predictions.json").read_text()).values()
    return {name: figure for part in parts for name, figure in part.items()}


@pytest.mark.parametrize(("older", "newer"), PAIRS)
def test_products_collectives_and_steps_are_no_slower_on_a_better_machine(older, newer):
    """Of the predictions that test_kept_predictions.py holds: some 20 figures of each pair."""
    figures = kept()
    both = {
        name: (took, figures[name.replace(older, newer)])
        for name, took in figures.items()
        if older in name and name.replace(older, newer) in figures
    }
    assert len(both) >= 15
    slower = {n: t for n, t in both.items() if t[1] > SLACK * t[0]}
    assert not {n: t for n, t in slower.items() if not any(m in n for m in MEASURED)}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_constant_of_an_engine_is_worse_on_a_better_chip(engine):
    """Times are no longer and rates no lower, so that no step of any model is slower."""
    for older, newer in pairwise(ORDER):
        (before, sheet), (after, better) = (_constants(p, engine) for p in (older, newer))
        rates = {
            "compute_efficiency": better.peak_rate("bf16") / sheet.peak_rate("bf16"),
            "memory_efficiency": better.memory_bandwidth / sheet.memory_bandwidth,
            "cache8_efficiency": 1.0,
        }
        for name in Constants.__struct_fields__:
            gain = next((r for kind, r in rates.items() if name.endswith(kind)), None)
            old, new = getattr(before, name), getattr(after, name)
            faster = old / new if gain is None else gain * new / old
            assert faster >= 1 / SLACK, f"{name} from {older} to {newer}: {old} and {new}"


def _constants(preset: str, engine: str) -> tuple[Constants, ck.machines.device.Device]:
    device = ck.load_machine(preset).devices[0]
    fitted = constants_of(device, engine)
    assert fitted is not None
    return fitted.constants, device


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("model", "tp"), [("llama-3.1-8b", 1), ("llama-3.1-70b", 4)])
def test_a_request_alone_is_served_no_later_by_a_better_machine(engine, model, tp):
    """The first token and every other one: among other requests a faster engine may take in more of them."""
    stream = "closed{concurrency=1,n=2,prompt=2048,output=32}"
    last = (math.inf, math.inf)
    for preset in ORDER:
        done = ck.serve(model, preset, requests=stream, engine=engine, tp=tp)
        now = done.ttft_ms.mean, done.tpot_ms.mean
        assert now[0] <= SLACK * last[0], preset
        assert now[1] <= SLACK * last[1], preset
        last = now
