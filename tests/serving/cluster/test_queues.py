"""Closed forms: queues with batching off, and Little's law with it on."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.serving.requests import RequestStream, requests_from, stream_of
from support.serving_engines import Serve, constant, pool

SERVICE = 0.1
"""Seconds of a step; a request of one output token is one step."""


def waiting(served: dict[str, np.ndarray]) -> np.ndarray:
    return (served["scheduled"] - served["arrival"]) * 1e-12


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_request_at_a_time_is_an_md1_queue(serve: Serve, load: float) -> None:
    """Poisson arrivals and constant service: the mean wait is load × service / (2 (1 − load))."""
    stream = requests_from(f"poisson{{rate={load / SERVICE}, n=60000, prompt=8, output=1, seed=3}}")
    done = serve(stream, pool(max_requests=1, cost=constant(SERVICE)))
    expected = load * SERVICE / (2 * (1 - load))
    assert waiting(done.requests).mean() == pytest.approx(expected, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_exponential_outputs_make_it_an_mm1_queue(serve: Serve, load: float) -> None:
    """Service of many short steps, exponential in number: the mean wait is load × service / (1 − load)."""
    mean = 50
    stream = requests_from(
        f"poisson{{rate={load / SERVICE}, n=60000, prompt=8, output=exponential:{mean}, seed=4}}"
    )
    done = serve(stream, pool(max_requests=1, cost=constant(SERVICE / mean)))
    service = stream.output.mean() * SERVICE / mean
    expected = load * service / (1 - load)
    assert waiting(done.requests).mean() == pytest.approx(expected, rel=0.06)


def test_little(serve: Serve) -> None:
    """Requests under way, on average, are the arrival rate times the time each is under way."""
    stream = requests_from("gamma{rate=40, cv=2, n=5000, prompt=64, output=lognormal:20:1, seed=1}")
    done = serve(stream, pool(max_requests=16, cost=constant(0.004)))
    arrival, finish = done.requests["arrival"], done.requests["finish"]
    moments = np.sort(np.concatenate([arrival, finish]))
    change = np.searchsorted(np.sort(arrival), moments, "right") - np.searchsorted(
        np.sort(finish), moments, "right"
    )
    span = int(moments[-1] - moments[0])
    inside = float((change[:-1] * np.diff(moments)).sum()) / span
    rate, stay = len(stream) / span, float((finish - arrival).mean())
    assert inside == pytest.approx(rate * stay, rel=1e-9)


def test_a_closed_loop_keeps_its_concurrency(serve: Serve) -> None:
    """With eight requests under way at all times, every full step has eight."""
    stream = requests_from("closed{concurrency=8, n=64, prompt=16, output=10}")
    done = serve(stream, pool())
    busy = done.steps["requests"][: -10 * 2]
    assert set(busy.tolist()) == {8}


def test_a_turn_waits_for_its_predecessor(serve: Serve) -> None:
    """A follower arrives a given time after the end of the request it follows."""
    stream = stream_of([0.0, 2.0], [16, 16], [5, 5], after=[-1, 0])
    done = serve(stream, pool(cost=constant(0.1)))
    assert done.requests["finish"].tolist() == [500_000_000_000, 3_000_000_000_000]
    assert done.requests["arrival"].tolist() == [0, 2_500_000_000_000]


def test_the_same_seed_gives_the_same_bytes(serve: Serve) -> None:
    """Twice the same stream and engine: every time is the same."""

    def times(seed: int) -> bytes:
        stream: RequestStream = requests_from(f"clients{{rate=20, n=500, cv=3, seed={seed}}}")
        return serve(stream, pool(max_requests=8)).requests["finish"].tobytes()

    assert times(5) == times(5)
    assert times(5) != times(6)
