"""What the devices of engines draw."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import parse_machine
from chakrakit.serving.results.figures import EngineLoad, RequestLengths, pool_joules
from chakrakit.serving.steps import StepOperators
from chakrakit.workloads.description import Decoder, Plan, Step

LENGTHS = RequestLengths(np.array([4]), np.array([2]))


@pytest.mark.parametrize(
    ("role", "pairs", "read"), [("whole", 20, 10), ("prefill", 10, 0), ("decode", 10, 10)]
)
def test_pairs_of_queries_and_cached_tokens(role: str, pairs: float, read: float) -> None:
    """A prompt of 4: 1 + 2 + 3 + 4 pairs. Two tokens after it look at about 5 each."""
    assert LENGTHS.attended(role) == (pairs, read)


def load(**changes):
    fields = {"role": "whole", "devices": 2, "tp": 1, "steps": 3, "tokens": 6, "sampled": 3}
    return EngineLoad(**{**fields, "busy": 10.0, **changes})


def test_a_device_that_says_no_more_draws_its_power_while_busy() -> None:
    """Two devices over 20 s, busy for 10 s in all: 10 s at 500 W and 30 s at 100 W."""
    network = [{"topology": "switch", "size": 2, "bandwidth": 1e9}]
    device = {"power": 500, "idle_power": 100}
    (plain,) = parse_machine({"network": network, "device": device}, "m").devices
    found = pool_joules(load(), SimpleNamespace(), plain, LENGTHS, 20.0)
    assert found == {"busy": 5000, "idle": 3000}


def test_a_device_that_says_what_work_takes_is_charged_by_class() -> None:
    device = ck.load_machine("dgx-h100").devices[0]
    work = StepOperators(
        Decoder(layers=2, hidden=256, heads=4, ffn=512, vocab=1000), Plan(), Step(kind="decode")
    )
    found = pool_joules(load(), work, device, LENGTHS, 20.0)
    assert {"gemm", "attention", "idle"} <= set(found)
    assert found["idle"] > 2 * 20 * device.idle_power
    twice = pool_joules(load(steps=6, tokens=12, sampled=6), work, device, LENGTHS, 20.0)
    assert twice["gemm"] == pytest.approx(2 * found["gemm"])


def test_padded_steps_are_charged_for_all_keys_that_they_copy() -> None:
    """An engine that masks attention pays for the context it fills up to, not for what is attended."""
    device = ck.load_machine("dgx-h200").devices[0]
    model = Decoder(layers=2, hidden=256, heads=4, ffn=512, vocab=1000)
    work = StepOperators(model, Plan(), Step(kind="decode"))
    paged = pool_joules(load(), work, device, LENGTHS, 20.0)
    found = {
        context: pool_joules(load(padded=[(64, context, 3)]), work, device, LENGTHS, 20.0)
        for context in (1024, 16384)
    }
    assert found[16384]["attention"] > 4 * found[1024]["attention"] > 4 * paged["attention"]
    assert found[1024]["gemm"] > paged["gemm"]  # products of the tokens that fill a step up
    assert found[1024]["vector"] > paged["vector"]  # copies and many small kernels


def test_every_padded_shape_counts_as_often_as_it_was_used() -> None:
    """Two steps of one shape and one of another draw what three runs of one step each draw beyond idling."""
    device = ck.load_machine("dgx-h200").devices[0]
    model = Decoder(layers=2, hidden=256, heads=4, ffn=512, vocab=1000)
    work = StepOperators(model, Plan(), Step(kind="decode"))

    def joules(*shapes: tuple[int, int, int]) -> dict[str, float]:
        steps = sum(n for *_, n in shapes)
        return pool_joules(load(steps=steps, padded=shapes), work, device, LENGTHS, 20.0)

    small, large = joules((64, 1024, 1)), joules((512, 16384, 1))
    both = joules((64, 1024, 2), (512, 16384, 1))
    for name in ("gemm", "attention", "vector"):
        assert both[name] == pytest.approx(2 * small[name] + large[name])


def test_attention_of_padded_steps_is_charged_by_the_flop() -> None:
    """As attention of a trace is: units that wait for it draw no power of vector kernels."""
    device = ck.load_machine("dgx-h200").devices[0]
    constants = device.dynamic
    model = Decoder(layers=1, hidden=256, heads=4, ffn=512, vocab=1000)
    work = StepOperators(model, Plan(), Step(kind="decode"))
    found = pool_joules(load(padded=[(64, 1024, 1)]), work, device, LENGTHS, 20.0)
    keys = 64 + 1024
    flops, read = 4.0 * 64 * keys * 256, 2 * 2 * keys * 256 + 2 * 64 * keys
    each = constants.product("bf16") * constants.attention
    through = constants.memory_pj + constants.cache_pj
    assert found["attention"] == pytest.approx((flops * each + read * through) * 1e-12)


def test_sorted_logits_take_time_and_energy_of_vector_units() -> None:
    """vLLM's own sampler sorts 128 × 131,072 logits in about two milliseconds on an H100."""
    requests = "closed{concurrency=128,n=256,prompt=64,output=32}"
    greedy, drawn = (
        ck.serve("llama-3.1-8b", "dgx-h100", requests, engine)
        for engine in ("vllm", "vllm{sampling=sorted}")
    )
    assert 1.5 < drawn.tpot_ms.mean - greedy.tpot_ms.mean < 3
    assert drawn.energy_by_class["vector"] > 3 * greedy.energy_by_class["vector"]
    assert drawn.energy_by_class["gemm"] == pytest.approx(greedy.energy_by_class["gemm"], rel=1e-3)
