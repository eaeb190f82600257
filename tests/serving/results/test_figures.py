"""From what the core gives to figures, on two requests that are served one after the other."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import parse_machine
from chakrakit.serving import serving_of
from chakrakit.serving.cluster import Setup, run
from chakrakit.serving.results import ServedRun, ServiceLevel
from chakrakit.serving.results.figures import deadlines_met, group_times, keys_met
from chakrakit.workloads.layers import Reach
from support.serving_engines import pool, together


@pytest.fixture(scope="module")
def served() -> ServedRun:
    """Prompts of 8 and outputs of 3 in steps of 10 ms, on a device of 500 W and 3.60 $ an hour."""
    network = [{"topology": "switch", "size": 1, "bandwidth": 1e9}]
    device = {"power": 500, "idle_power": 100, "price_per_hour": 3.6}
    machine = parse_machine({"network": network, "device": device}, "m")
    setup = Setup(together(2, 8, 3), [pool(max_requests=1)], record_steps=True)
    work = SimpleNamespace(plan=SimpleNamespace(tp=1), figures_on=lambda peak: None)
    level = ServiceLevel(ttft=20.0)
    return ServedRun(setup, run(setup), machine.devices[0], (1,), (work,), level=level)


def test_latencies_and_rates(served: ServedRun) -> None:
    """The second waits 30 ms: first tokens after 10 and 40 ms, ends after 30 and 60 ms."""
    found = served.result()
    assert (found.requests, found.finished, found.steps) == (2, 2, 6)
    assert (found.ttft_ms.mean, found.e2e_ms.mean) == pytest.approx((25, 45))
    assert (found.queue_ms.mean, found.tpot_ms.p99) == pytest.approx((15, 10))
    assert found.duration_s == pytest.approx(0.06)
    assert found.output_tokens_per_s == pytest.approx(6 / 0.06)
    assert found.total_tokens_per_s == pytest.approx(22 / 0.06)
    assert found.mean_batch == 1
    assert (found.attained, found.goodput) == pytest.approx((0.5, 1 / 0.06))


def test_energy_and_price(served: ServedRun) -> None:
    """Busy all the time: 60 ms at 500 W, and 60 ms of 3.60 $ an hour."""
    found = served.result()
    assert found.energy_joules == pytest.approx(30)
    assert found.joules_per_token == pytest.approx(5)
    assert found.price == pytest.approx(6e-5)
    assert found.price_per_million_tokens == pytest.approx(10)
    assert found.carbon_kg is None


def test_what_devices_do_not_say_is_not_0(served: ServedRun) -> None:
    """A device without a price does not serve for nothing, and one without power takes an unknown energy."""
    unpriced = replace(served, device=msgspec.structs.replace(served.device, price_per_hour=0.0))
    found = unpriced.result()
    assert (found.price, found.price_per_million_tokens) == (None, None)
    assert found.energy_joules == pytest.approx(30)
    found = replace(served, device=msgspec.structs.replace(served.device, power=0.0)).result()
    assert (found.energy_joules, found.joules_per_token, found.energy_by_class) == (None, None, {})
    assert any("has no power" in note for note in found.notes)


def test_the_mean_gap_between_tokens_is_exact(served: ServedRun) -> None:
    """Requests alone in their steps: each gap is a step of 10 ms, whatever bin it is counted in."""
    assert served.result().itl_ms.mean == pytest.approx(10, rel=1e-12)


def test_a_stream_that_begins_late_is_measured_from_its_first_arrival(served: ServedRun) -> None:
    """The second hour of a log has the figures of the first."""
    stream = served.setup.stream
    late = replace(
        served.setup, stream=replace(stream, arrival_ps=stream.arrival_ps + 3600 * 10**12)
    )
    shifted, figures = replace(served, setup=late, outcome=run(late)).result(), served.result()
    assert shifted.duration_s == pytest.approx(0.06)
    for name in ("output_tokens_per_s", "goodput", "energy_joules", "price"):
        assert getattr(shifted, name) == pytest.approx(getattr(figures, name))


def test_energy_without_idle_power_says_so(served: ServedRun) -> None:
    silent = msgspec.structs.replace(served.device, idle_power=0.0)
    assert any("no idle_power" in n for n in replace(served, device=silent).result().notes)
    assert not any("idle_power" in n for n in served.result().notes)


def test_the_pool_and_its_cache(served: ServedRun) -> None:
    """Eleven tokens need one block of 16."""
    (own,) = served.result().pools
    assert (own.devices, own.steps, own.busy) == (1, 6, pytest.approx(1))
    assert own.mean_tokens == pytest.approx((8 + 1 + 1) / 3)
    assert own.kv.peak_tokens == 16
    assert own.kv.capacity_tokens == 16_000


def test_one_row_per_request(served: ServedRun) -> None:
    second = served.requests_table().to_pylist()[1]
    times = [second[n] for n in ("arrival_s", "scheduled_s", "first_token_s", "finish_s")]
    assert times == pytest.approx([0, 0.03, 0.04, 0.06])
    assert (second["id"], second["prompt"], second["output"]) == ("1", 8, 3)
    assert served.percentiles(1.0) == pytest.approx((40, 10, 60))


@pytest.mark.parametrize(
    ("rate", "requests", "behind"),
    [(20, 600, False), (60, 600, True), (60, 60, False)],
    ids=["keeps up", "too fast", "too short to tell"],
)
def test_a_stream_that_the_engine_cannot_serve_is_said(
    rate: int, requests: int, behind: bool
) -> None:
    stream = f"poisson{{rate={rate},n={requests},prompt=512,output=128,seed=1}}"
    result = ck.serve("llama-3.1-8b", "dgx-h100", stream)
    assert any("requests take ever longer" in note for note in result.notes) == behind
    assert ("requests take ever longer" in str(result)) == behind


def test_a_dense_end_of_a_stream_is_no_overload() -> None:
    """At three quarters of what the engine serves requests pile up by chance, and go when it goes on."""
    stream = "poisson{rate=20,n=400,prompt=1024,output=128,seed=0}"
    served = serving_of("llama-3.1-8b", "dgx-h100", stream).served()
    assert not served.falls_behind
    assert not any("take ever longer" in note for note in served.result().notes)


@pytest.mark.parametrize(
    ("stream", "slow"),
    [
        ("poisson{rate=100,n=400,prompt=1024,output=128}", True),
        ("poisson{rate=10,n=60,prompt=1024,output=128}", False),
        ("closed{concurrency=400,n=400,prompt=1024,output=128}", False),
    ],
    ids=["four times too fast", "keeps up", "a batch"],
)
def test_a_short_stream_whose_requests_take_many_times_as_long_as_one_is_said(
    stream: str, slow: bool
) -> None:
    """At nine tenths of what an engine serves they take 3.6 times as long, in streams of any length."""
    result = ck.serve("llama-3.1-8b", "dgx-h100", stream)
    assert any("too short to tell" in note for note in result.notes) == slow
    assert not any("take ever longer" in note for note in result.notes)


def test_a_group_begins_with_its_first_request_and_ends_with_its_last():
    """Requests of no group count for none, and a group of which one never ended has no end."""
    group, arrival = np.array([3, -1, 3, 5, 5]), np.array([7, 1, 4, 8, 9])
    first, last = group_times(group, arrival, finish=np.array([20, 99, 30, 40, -1]))
    assert (first.tolist(), last.tolist()) == ([4, 8], [30, -1])


@pytest.mark.parametrize(
    ("reach", "keys"),
    [
        (Reach(), 0),
        (Reach(most=300), 300),
        (Reach(most=50, stride=8), 50),
        (Reach(stride=4), 0),
        (Reach(chunk=256), 0),
    ],
)
def test_keys_that_queries_meet_are_the_sum_over_queries(reach: Reach, keys: int) -> None:
    """Each query meets the tokens before it, in keys of `stride`, up to its limit or its chunk's start."""
    upto = 1000
    query = np.arange(upto) + 0.5  # as half a square counts them
    met = (query % reach.chunk if reach.chunk else query) / reach.stride
    exact = np.minimum(met, keys or np.inf).sum()
    assert float(keys_met(reach, np.array([float(upto)]))[0]) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("group", "deadline", "share"),
    [
        (None, [10, 10, 10, 10], 0.5),
        (None, [10, 9, -1, 10], 1 / 3),
        ([0, 0, 1, -1], [15, 15, 10, 10], 0.25),  # from the first arrival of a group
        ([-1, -1, -1, -1], [10, 10, 10, 10], 0.5),
    ],
)
def test_deadlines_count_from_arrival_or_from_a_group_s_first(
    group: list[int] | None, deadline: list[int], share: float
) -> None:
    """Requests that take 10, 10, 11 units, and one that never ends."""
    arrival, finish = np.array([0, 10, 20, 30]), np.array([10, 20, 31, -1])
    stream = SimpleNamespace(
        deadline_ps=np.array(deadline), group=None if group is None else np.array(group)
    )
    assert deadlines_met(stream, arrival, finish) == pytest.approx(share)


def test_only_constants_fitted_to_published_runs_have_their_intervals() -> None:
    """A roofline of an H100 is twice as fast as vLLM there, which intervals of published runs would deny."""
    requests = "poisson{rate=4,n=8,prompt=512,output=16}"
    fitted = ck.serve("llama-3.1-8b", "dgx-h100", requests)
    assert fitted.intervals["ttft_ms"]["mean"][0] < fitted.ttft_ms.mean
    roofline = ck.serve("llama-3.1-8b", "dgx-h100", requests, compute="roofline")
    assert roofline.intervals == {}


def test_streams_whose_steps_are_timed_otherwise_are_not_compared_in_silence(tmp_path) -> None:
    requests = "poisson{rate=4,n=8,prompt=512,output=16}"
    for name, compute in (("fitted", "auto"), ("again", "auto"), ("plain", "roofline")):
        ck.serve("llama-3.1-8b", "dgx-h100", requests, compute=compute, output=tmp_path / name)
    differ = ck.compare(tmp_path / "fitted", tmp_path / "plain").warning
    assert "step times are those of data sheet of h100-sxm" in differ
    assert "operators by roofline" in differ
    assert ck.compare(tmp_path / "fitted", tmp_path / "again").warning == ""


@pytest.mark.parametrize(("blocks", "full"), [(500, True), (20_000, False)])
def test_a_cache_that_holds_too_few_requests_is_said(blocks: int, full: bool) -> None:
    """32 requests of up to 1,064 tokens: 500 blocks of 16 hold seven of them."""
    requests = "closed{concurrency=32,n=64,prompt=1000,output=64}"
    result = ck.serve("llama-3.1-8b", "dgx-h100", requests, kv_blocks=blocks)
    assert any("7.5 requests of 1,064 at their end" in note for note in result.notes) == full
