"""Constants of an engine on a device, fitted to published figures."""

from __future__ import annotations

import msgspec
import pytest

import chakrakit as ck
from chakrakit.serving.calibration import Region, constants_of

FITTED = Region(
    runs=40,
    requests=(4, 128),
    prompt=(1024, 8192),
    output=(128, 1024),
    tp=(1, 8),
    attention=["grouped-query"],
    experts=False,
    precisions=["bf16", "fp8"],
)


def device(preset: str):
    return ck.load_machine(preset).devices[0]


def test_constants_are_there_for_the_pairs_that_were_fitted() -> None:
    fitted = constants_of(device("dgx-h100"), "vllm")
    assert fitted is not None
    assert fitted.device == "h100-sxm"
    assert 0 < fitted.constants.compute_efficiency <= 1
    assert 0 < fitted.constants.attention_memory_efficiency <= 1
    assert constants_of(device("dgx-h100"), "orca") is None


@pytest.mark.parametrize(
    ("preset", "source"),
    [("dgx-a100", "h100-sxm"), ("gb200-nvl72", "b200-sxm"), ("dgx-b300", "b200-sxm")],
)
def test_other_devices_take_those_of_the_nearest(preset: str, source: str) -> None:
    fitted = constants_of(device(preset), "vllm")
    assert fitted is not None
    assert fitted.device == source


def test_a_device_of_a_machine_s_file_takes_the_constants_of_the_nearest() -> None:
    """Its data sheet alone would be served at all of its rates, which no engine reaches."""
    bare = msgspec.structs.replace(device("dgx-h100"), name="abacus", profile="")
    carried, own = constants_of(bare, "vllm"), constants_of(device("dgx-h100"), "vllm")
    assert carried is not None
    assert own is not None
    assert (carried.device, carried.constants) == ("h100-sxm", own.constants)
    unknown = msgspec.structs.replace(bare, memory_bandwidth=0.0)
    assert constants_of(unknown, "vllm") is None


def test_a_run_like_the_fitted_ones_leaves_no_region() -> None:
    assert FITTED.beyond(FITTED) == []
    near = msgspec.structs.replace(FITTED, requests=(200, 200), prompt=(600, 600))
    assert FITTED.beyond(near) == []


def test_a_region_says_in_what_a_run_leaves_it() -> None:
    run = msgspec.structs.replace(
        FITTED, requests=(1, 1), attention=["multi-head"], experts=True, precisions=["fp4"]
    )
    assert FITTED.beyond(run) == [
        "requests at a time 1 (fitted on 4 to 128)",
        "multi-head attention",
        "fp4 weights",
        "experts",
    ]


def test_a_result_names_its_rung_and_what_it_leaves() -> None:
    usual = "closed{concurrency=8,n=16,prompt=1024,output=128}"
    grouped = ck.serve("llama-3.1-8b", "dgx-h100", usual)
    assert grouped.step_times == (
        "data sheet of h100-sxm at the shares fitted to published runs of vllm"
    )
    assert not [n for n in grouped.notes if "fitted on" in n]
    heads = ck.serve("llama2-7b", "dgx-a100", usual)
    assert heads.step_times.endswith("of vllm, carried from h100-sxm")
    assert (
        "step times leave what the constants of vllm were fitted on: "
        "another device than h100-sxm; multi-head attention" in heads.notes
    )
