"""What engines serve at the most, and streams that go on."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.machines import load_machine
from chakrakit.serving import ServingSession, serving_of
from chakrakit.serving.plan import EngineLayout
from chakrakit.serving.steadiness import most_requests_per_s, repeated, smallest_alike


def session(requests: str, **layout: int) -> ServingSession:
    return serving_of("llama-3.1-8b", load_machine("dgx-h100"), requests, **layout)


@pytest.mark.parametrize("load", [0.9, 1.1])
def test_more_than_engines_can_serve_piles_up_and_less_does_not(load: float) -> None:
    """In a long stream, requests under way stay as many, or grow by what comes beyond the most."""
    shape = "prompt=1000,output=20"
    most = most_requests_per_s(session(f"poisson{{rate=1,n=50,{shape}}}"))
    assert most is not None
    served = session(f"poisson{{rate={load * most},n=8000,{shape}}}").served()
    ends = np.sort(served.outcome.requests["finish"]) * 1e-12
    rate = 8000 / ends[-1]
    assert rate == pytest.approx(min(load, 1) * most, rel=0.03)


def test_engines_side_by_side_serve_as_many_times_as_much() -> None:
    requests = "poisson{rate=1,n=50,prompt=1000,output=20}"
    one, two = (most_requests_per_s(session(requests, replicas=n)) for n in (1, 2))
    assert one is not None
    assert two == pytest.approx(2 * one, rel=0.02)
    assert smallest_alike(EngineLayout(tp=2, replicas=3)) == (EngineLayout(tp=2), 3)
    apart = EngineLayout(prefill=2, decode=4, prefill_tp=1, decode_tp=2)
    assert smallest_alike(apart) == (
        EngineLayout(prefill=1, decode=2, prefill_tp=1, decode_tp=2),
        2,
    )


def test_requests_that_wait_for_others_have_no_rate_of_their_own() -> None:
    for requests in ("closed{concurrency=4,n=8}", "poisson{rate=5,n=8,turns=2,think=1}"):
        assert most_requests_per_s(session(requests)) is None


def test_a_repeated_stream_goes_on_at_its_rate_with_content_of_its_own() -> None:
    stream = session("poisson{rate=5,n=40,prompt=640,output=8,prefix=320}").stream
    again = repeated(stream, 3)
    assert len(again) == 120
    assert (np.diff(again.arrival_ps) >= 0).all()
    assert np.ptp(again.arrival_ps) / 119 == pytest.approx(np.ptp(stream.arrival_ps) / 39)
    assert (again.prompt == np.tile(stream.prompt, 3)).all()
    assert len(np.unique(again.ids)) == 3 * len(np.unique(stream.ids))
