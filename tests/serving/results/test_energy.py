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
        context: pool_joules(load(padding=(64, context)), work, device, LENGTHS, 20.0)
        for context in (1024, 16384)
    }
    assert found[16384]["attention"] > 4 * found[1024]["attention"] > 4 * paged["attention"]
    assert found[1024]["gemm"] == paged["gemm"]
    assert found[1024]["vector"] > paged["vector"]  # many small kernels, which take their time


@pytest.mark.parametrize(
    ("padding", "filled"), [((1, 1), (2, 10)), ((64, 16384), (64, 16384)), ((2, 4), (2, 12))]
)
def test_a_mean_step_is_filled_up(padding: tuple[int, int], filled: tuple[int, int]) -> None:
    """Six tokens and thirty of context in three steps; rounding up adds half a multiple on average."""
    assert load(padding=padding).padded(6, 30) == filled
