"""The cheapest way to serve within a level is what serving every way to the end finds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.search import ServingSearchResult, search_serving, search_serving_on
from chakrakit.exploration.search.serving_search import serving_space
from chakrakit.machines import load_machine
from chakrakit.serving import serving_of
from chakrakit.serving.results import ServiceLevel
from chakrakit.serving.steadiness import repeated

MODEL = "llama-3.1-8b"
REQUESTS = "poisson{rate=60,n=60,prompt=512,output=32,seed=3}"
SLO = "ttft=120,tpot=12"
GIVEN: dict[str, Any] = {"tp": [1, 2], "batch_tokens": [512, 4096], "batch_requests": [16, 64]}


@pytest.fixture(scope="module")
def found() -> ServingSearchResult:
    return search_serving(MODEL, [4], "dgx-h100", REQUESTS, SLO, fixed=GIVEN, attain=0.95)[0]


@pytest.mark.slow
def test_the_best_is_the_best_of_all_ways(found: ServingSearchResult) -> None:
    """Served to the end, no way with fewer devices meets the level, and none with as many has more slack.

    Those that have are busier than they can be: of a longer stream they serve too little within the level.
    """
    machine = load_machine("dgx-h100")
    base = serving_of(MODEL, machine, REQUESTS)
    space, level = serving_space(base.model, machine, GIVEN), ServiceLevel.parse(SLO)
    slack = {}
    for devices in range(1, found.best.devices + 1):
        for one in space.candidates(devices):
            limits = {"token_budget": one.batch_tokens, "max_requests": one.batch_requests}
            engine = msgspec.structs.replace(base.engine, **limits)
            session = replace(base, layout=one.layout, engine=engine)
            served = session.served(level)
            longer = replace(session, stream=repeated(base.stream, 100)).served(level).result()
            if served.result().attained >= 0.95 and longer.attained >= 0.95:
                ttft, tpot, _ = served.percentiles(0.95)
                slack[one] = min(1 - ttft / 120, 1 - tpot / 12)
    assert {one.devices for one in slack} == {found.best.devices}
    assert found.best.slack == pytest.approx(max(slack.values()))


@pytest.mark.slow
def test_what_cannot_meet_the_level_is_given_up_and_told(found: ServingSearchResult) -> None:
    assert found.given_up > 0
    missed = [r for r in found.runners_up if not r.meets]
    assert missed
    assert all("only" in r.why and r.attained < 0.95 for r in missed)
    assert "of its limit" in found.best.why


def test_the_command_names_limits_as_the_engine_does(found: ServingSearchResult) -> None:
    best = found.best
    limits = f"max_num_batched_tokens={best.batch_tokens}, max_num_seqs={best.batch_requests}"
    assert f"--engine 'vllm{{{limits}}}'" in found.command


def test_limits_in_the_engine_are_kept() -> None:
    engine = "vllm{max_num_batched_tokens=1024}"
    found, serving = search_serving(
        MODEL,
        [1],
        "dgx-h100",
        "poisson{rate=1,n=5,prompt=64,output=4}",
        "ttft=500",
        engine=engine,
        fixed={"batch_requests": [8]},
    )
    assert found.best.batch_tokens == serving.engine.token_budget == 1024
    assert found.command.count("max_num_batched_tokens") == 1


@pytest.mark.parametrize(
    ("slo", "attain", "gpus", "said"),
    [
        ("", 0.99, [1], "needs a service level"),
        ("ttft=100", 1.5, [1], "--attain 1.5"),
        ("ttft=0.01", 0.9, [1], "no way to serve with up to 1 devices .* does for 0.0%"),
        ("ttft=100", 0.9, [0], "gpus should be"),
    ],
)
def test_what_cannot_be_is_refused(slo: str, attain: float, gpus: list[int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        search_serving(
            MODEL,
            gpus,
            "dgx-h100",
            "poisson{n=5,rate=1,prompt=64,output=4}",
            slo,
            attain=attain,
            fixed={"batch_tokens": [512], "batch_requests": [8]},
        )


def test_weights_that_do_not_fit_are_counted() -> None:
    with pytest.raises(ConfigError, match="none of 1 has room for weights, cache and requests"):
        search_serving(
            "llama-3.1-70b",
            [1],
            "dgx-h100",
            "poisson{n=5,rate=1,prompt=64,output=4}",
            "ttft=500",
            fixed={"batch_tokens": [512], "batch_requests": [8], "pools": ["together"]},
        )


def test_a_way_that_falls_behind_the_stream_is_not_the_best() -> None:
    """One decode engine meets the level of the first token and yet serves ever later."""
    stream = "poisson{rate=20,n=600,prompt=512,output=256,seed=3}"
    fixed = {"tp": [1], "batch_tokens": [2048], "batch_requests": [8]}
    result = search_serving(MODEL, [8], "dgx-h100", stream, "ttft=400", fixed=fixed)[0]
    assert not result.best.falls_behind
    late = [plan for plan in result.runners_up if plan.meets and plan.falls_behind]
    assert late
    assert all("it falls behind" in plan.why and plan.load > 1 for plan in late)
    assert max(plan.output_tokens_per_s for plan in late) < result.best.output_tokens_per_s


@pytest.mark.parametrize(("requests", "devices"), [(100, 4), (2000, 4)])
def test_a_short_stream_needs_as_many_devices_as_a_long_one(requests: int, devices: int) -> None:
    """One engine of an 8B model serves 15.8 such requests a second; 100 of them fit two engines at once."""
    stream = f"poisson{{rate=50,n={requests},prompt=512,output=512}}"
    fixed = {"tp": [1], "batch_tokens": [2048], "batch_requests": [256], "pools": ["together"]}
    result = search_serving(MODEL, [8], "dgx-h100", stream, "ttft=2000", fixed=fixed)[0]
    assert result.best.devices == devices
    assert result.best.load is not None
    assert result.best.load < 1


def test_a_way_that_misses_the_level_once_the_stream_goes_on_is_not_the_best() -> None:
    """The first hundred requests find an engine that fills up only after them."""
    stream = "poisson{rate=14,n=100,prompt=512,output=512}"
    fixed = {"tp": [1], "batch_tokens": [2048], "batch_requests": [256], "pools": ["together"]}
    result = search_serving(MODEL, [2], "dgx-h100", stream, "tpot=18", fixed=fixed)[0]
    assert result.best.devices == 2
    (late,) = [p for p in result.runners_up if p.devices == 1]
    assert late.meets
    assert not late.falls_behind
    assert late.longer_attained is not None
    assert late.longer_attained < 0.99
    assert "when the stream goes on" in late.why


def test_a_stream_of_sessions_that_is_too_short_to_tell_is_said() -> None:
    """A turn comes when the one before it has ended, so that nobody knows what a longer stream brings."""
    stream = "poisson{rate=5,n=6,turns=2,think=0.1,prompt=64,output=512}"
    fixed = {"tp": [1], "batch_tokens": [2048], "batch_requests": [64], "pools": ["together"]}
    result = search_serving(MODEL, [1], "dgx-h100", stream, "ttft=2000", fixed=fixed)[0]
    assert result.best.unsure == ("too short to tell" in result.best.why)
    assert result.best.unsure


def test_a_way_that_was_found_before_an_interruption_is_told_with_its_doubt() -> None:
    """Interrupted before it is known whether the way keeps up, which meets the level."""
    calls = iter((1,))

    def interrupted(_done: int, _total: int | None) -> None:
        if next(calls, None) is not None:
            raise KeyboardInterrupt

    fixed = {"tp": [1], "batch_tokens": [2048], "batch_requests": [64], "pools": ["together"]}
    stream = "poisson{rate=5,n=20,prompt=64,output=16}"
    given = (MODEL, [1], "dgx-h100", stream, "ttft=2000")
    with pytest.raises(KeyboardInterrupt):  # nothing had been noted yet
        search_serving(*given, fixed=fixed, progress=interrupted)
    calls = iter(())

    def later(done: int, _total: int | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    two = {**fixed, "batch_requests": [64, 128]}
    result = search_serving(*given, fixed=two, progress=later)[0]
    assert result.stopped
    assert result.best.unsure
    assert "nobody knows whether" in result.best.why


def test_of_several_machines_the_cheapest_that_serves_is_found() -> None:
    """An L40S costs less than an H100; 16 GB have no room for the model."""
    stream, fixed = "poisson{rate=2,n=5,prompt=64,output=8}", {"tp": [1], "pools": ["together"]}
    given = (["dgx-h100", "l40s-pcie", "tpu-v5e"], stream, "ttft=2000,tpot=90")
    result, _ = search_serving_on("llama-3.1-8b", [1], *given, fixed=fixed)
    assert (result.machine, result.best.machine) == ("l40s-pcie", "l40s-pcie")
    elsewhere = result.runners_up[0]
    assert elsewhere.machine == "dgx-h100"
    more = elsewhere.price_per_hour - result.best.price_per_hour
    assert elsewhere.why == f"the best on dgx-h100: ${more:,.2f} more an hour"
    assert "no way to serve with up to 1 devices" in result.refused["tpu-v5e"]
    with pytest.raises(ConfigError, match="did you mean 'dgx-h200'"):
        search_serving_on("llama-3.1-8b", [1], ["dgx-h100", "dgx-h20"], stream, "ttft=2000")


def test_machines_without_a_price_come_last_and_are_not_compared() -> None:
    """Of the others the cheapest wins; a price of theirs puts them in their place."""
    stream, fixed = "poisson{rate=2,n=5,prompt=64,output=8}", {"tp": [1], "pools": ["together"]}
    given = (["tpu-v6e", "dgx-h100", "l40s-pcie"], stream, "ttft=2000,tpot=90")
    result, _ = search_serving_on("llama-3.1-8b", [1], *given, fixed=fixed)
    assert [p.machine for p in (result.best, *result.runners_up[:2])] == [
        "l40s-pcie",
        "dgx-h100",
        "tpu-v6e",
    ]
    assert "not compared, it states no price; give --price-per-hour" in result.runners_up[1].why
    priced, _ = search_serving_on("llama-3.1-8b", [1], *given, fixed=fixed, price_per_hour=0.5)
    assert (priced.best.machine, priced.best.price_per_hour) == ("tpu-v6e", 0.5)
    known = {p.machine: p.price_per_hour for p in priced.runners_up[:2]}
    assert known == {p.machine: p.price_per_hour for p in (result.best, result.runners_up[0])}


def test_where_no_machine_has_a_price_the_fewest_devices_win() -> None:
    stream, fixed = "poisson{rate=2,n=5,prompt=64,output=8}", {"tp": [1], "pools": ["together"]}
    given = (["tpu-v6e", "mi300x"], stream, "ttft=2000,tpot=90")
    result, _ = search_serving_on("llama-3.1-8b", [1], *given, fixed=fixed)
    assert result.best.price_per_hour is None
    assert result.runners_up[0].why.endswith("0 more devices; no price is known")


def test_a_price_goes_before_that_of_the_only_machine() -> None:
    stream, fixed = "poisson{rate=2,n=5,prompt=64,output=8}", {"tp": [1], "pools": ["together"]}
    given = (["l40s-pcie"], stream, "ttft=2000,tpot=90")
    result, _ = search_serving_on("llama-3.1-8b", [1], *given, fixed=fixed, price_per_hour=0.5)
    assert result.best.price_per_hour == 0.5


def test_the_precision_is_that_of_the_machine(tmp_path: Path) -> None:
    """Hopper has no products of four-bit numbers; Blackwell has."""
    sizes = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "vocab_size": 512,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    made = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": []}
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"model_type": "llama", **sizes, **heads, "quantization_config": made})
    )
    given = ("poisson{rate=2,n=2,prompt=64,output=8}", "ttft=2000")
    fixed = {"tp": [1], "pools": ["together"]}
    for machine, activations in (("dgx-h200", "bf16"), ("dgx-b200", "nvfp4")):
        result, serving = search_serving(str(path), [1], machine, *given, fixed=fixed)
        assert result.model is not None
        assert (result.model.precision.weights, result.model.precision.activations) == (
            "nvfp4",
            activations,
        )
        assert serving.served().result().model == result.model


def test_devices_without_a_price_have_none() -> None:
    """A one-token stream besides: its time per output token is absent, and its level is kept."""
    stream, fixed = "poisson{rate=2,n=5,prompt=64,output=1}", {"tp": [1], "pools": ["together"]}
    given = ("llama-3.1-8b", [1], "tpu-v6e", stream, "ttft=2000,tpot=90")
    plan = search_serving(*given, fixed=fixed)[0].best
    assert (plan.price_per_hour, plan.price_per_million_tokens, plan.tpot_ms) == (None, None, None)
    assert plan.meets
    priced = search_serving(*given, fixed=fixed, price_per_hour=2.0)[0].best
    assert priced.price_per_hour == 2.0
    assert priced.price_per_million_tokens is not None
