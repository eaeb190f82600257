"""What a served run says of its requests: parts that sum to the whole, and what they waited for."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight import ServingFacts
from chakrakit.insight.served_requests import _Queue, serving_facts
from support.served import served


def facts(**limits: int) -> ServingFacts:
    serving = serving_facts(served(**limits))
    assert serving is not None
    return serving


def test_the_mean_request_is_its_queue_its_prompt_and_its_output() -> None:
    serving = facts()
    assert serving.requests == 2
    assert serving.parts == {"queued": 5, "prompt": 10, "output": 15}
    assert (serving.e2e_ms.mean, serving.ttft_ms.mean, serving.tpot_ms.mean) == (30, 15, 10)
    assert (serving.output.steps_ms, serving.output.between_ms) == (15, 0)
    assert serving.output.features == {
        "steps": 1.5,
        "decodes": 3,
        "prompt tokens": 2,
        "context": 14,
    }


def test_an_engine_has_its_steps_its_cache_and_its_queue() -> None:
    [engine] = facts().engines
    assert (engine.steps, engine.requests, engine.step_ms, engine.busy) == (3, 2, 10, 1)
    assert (engine.cache_capacity, engine.cache_peak, engine.cache_mean) == (100, 100, 40)
    # one request waits for 10 of 30 ms, until the first step has ended
    assert engine.waiting_mean == pytest.approx(1 / 3)


def test_the_queue_and_what_it_waited_for_are_averages_over_time() -> None:
    """Little's law: 2 requests in 40 ms that wait 15 ms on average are 0.75 in the queue, at any moments."""
    queue = _Queue(np.array([0.0, 5.0]), np.array([10.0, 25.0]), 1, 40.0)
    assert queue.mean == 2 / 40 * 15
    # 0–5 one waits, 5–10 two, 10–25 one: 10 ms up to 7.5, 12.5 up to 17.5, 7.5 then
    assert queue.waited_between(np.array([0.0, 7.5, 17.5])).tolist() == [10.0, 12.5, 7.5]


@pytest.mark.parametrize(
    ("limits", "waits"),
    [
        ({"kv_capacity_tokens": 100, "max_requests": 2}, {"room in the cache": 1}),
        ({"kv_capacity_tokens": 200, "max_requests": 1}, {"a place in the batch": 1}),
        ({"max_requests": 1}, {"a place in the batch": 1}),
        ({"other": 1}, {"the next step and its tokens": 1}),
    ],
)
def test_what_requests_waited_for_follows_from_the_engines_limits(
    limits: dict[str, int], waits: dict[str, float]
) -> None:
    assert facts(**limits).engines[0].waits == waits


def test_the_time_of_a_step_is_no_less_for_more_work() -> None:
    model = facts().step_model
    assert all(value >= 0 for value in model.values())
    assert sum(model[n] * v for n, v in zip(model, (1, 2, 6, 6), strict=True)) == pytest.approx(10)


def test_the_slowest_come_first_and_other_runs_have_no_facts(two_ranks: ck.Run) -> None:
    assert [r.finish_ms - r.arrival_ms for r in facts().slowest] == [30, 30]
    assert serving_facts(two_ranks) is None
    assert facts().tables()[0].title == "2 requests, ms"


def test_nothing_is_said_of_a_stream_with_faster_steps() -> None:
    """Its steps hold whatever has arrived: the same steps in less time are no stream."""
    analysis = ck.analyze(served(), faster={"compute": 2})
    assert (analysis.what_if.gains, analysis.what_if.slack) == ([], [])
    assert any("serve the stream again" in note for note in analysis.notes)
    assert not any("what-if" in note for note in ck.analyze(served()).notes)
