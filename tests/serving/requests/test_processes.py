"""Requests that nobody recorded: arrivals, lengths, shared prefixes, sessions."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ChakraError
from chakrakit.serving.requests import requests_from


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poisson{rate=0}", "a rate of 0.0"),
        ("poisson{rates=3}", "unknown field `rates`"),
        ("poisson{prompt=-4}", "prompt length '-4'"),
        ("poisson{prompt=normal:3:4}", "prompt length 'normal:3:4'"),
        ("closed{concurrency=0}", "a concurrency of 0"),
        ("bursts{size=0}", "bursts of 0; give 1 or more"),
        (
            "bursts{size=9223372036854775808}",
            "the size of bursts is 9,223,372,036,854,775,808; 20,000,000",
        ),
        (
            "closed{concurrency=1000000000000}",
            "the concurrency is 1,000,000,000,000; 20,000,000 is",
        ),
        ("nothing.csv", "neither a file nor a process; there are poisson"),
        ("poison{rate=4}", "did you mean .poisson.?"),
        ("poisson{rate=", "--requests"),
        ("poisson{n=1000000000000}", "n is 1,000,000,000,000; 20,000,000 is the most"),
        ("clients{clients=1000000000}", "clients times n is 1,000,000,000,000"),
        ("poisson{prefix=100000000000}", "prefix is 100,000,000,000"),
        ("poisson{turns=1000,n=100000,prompt=100000}", "shared pieces of 16 tokens"),
        ("poisson{rate=1e-300,n=3}", "the last of 3 comes after .* give a higher rate"),
        ("poisson{think=1e300,turns=2}", "give a higher rate or a shorter think"),
        ("gamma{cv=1e200}", "a cv of 1e[+]200"),
        ("poisson{seed=-1}", "seed must be 0 or more"),
        ("poisson{priorities=99999999999999999999}", "priorities|Integer"),
    ],
)
def test_bad_processes_are_refused(text: str, message: str) -> None:
    """With the option and the field."""
    with pytest.raises(ChakraError, match=message):
        requests_from(text)


def test_processes_have_the_rate_and_the_spread_they_are_given() -> None:
    """A gamma process of cv 3 has gaps of that mean and spread; lognormal lengths theirs."""
    stream = requests_from("gamma{rate=5, cv=3, n=40000, prompt=lognormal:300:0.7, seed=2}")
    gaps = np.diff(stream.arrival_ps) * 1e-12
    assert gaps.mean() == pytest.approx(0.2, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(3, rel=0.05)
    assert stream.prompt.mean() == pytest.approx(300, rel=0.02)
    assert stream.prompt.std() / stream.prompt.mean() == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("gamma{rate=4, cv=0, n=3}", [0.25, 0.5, 0.75]),
        ("clients{rate=3, clients=2, cv=0, n=4}", [0.5, 1.0, 1.0, 1.5]),  # 2 and 1 per second
        ("closed{concurrency=2, n=3}", [0, 0, 0]),
    ],
)
def test_arrivals_without_chance(text: str, seconds: list[float]) -> None:
    assert (requests_from(text).arrival_ps / 1e12).tolist() == pytest.approx(seconds)


def test_those_of_a_burst_arrive_together() -> None:
    times = requests_from("bursts{size=3, n=8}").arrival_ps.tolist()
    assert [times.count(t) for t in dict.fromkeys(times)] == [3, 3, 2]
    assert len(set(requests_from("bursts{size=1, n=8}").arrival_ps.tolist())) == 8


def test_a_turn_begins_with_what_was_said_before_in_its_session() -> None:
    """Prompts of 32 and outputs of 16: the second turn has 32 + 16 tokens before its own 32."""
    stream = requests_from("poisson{n=4, turns=2, think=3, prompt=32, output=16}")
    assert stream.prompt.tolist() == [32, 80, 32, 80]
    assert stream.after.tolist() == [-1, 0, -1, 2]
    assert stream.arrival_ps[1] == 3 * 10**12
    sizes = np.diff(stream.offsets)
    assert sizes.tolist() == [2, 5, 2, 5]  # names of 16 tokens each
    first, second = stream.ids[:2], stream.ids[2:7]
    assert second[:2].tolist() == first.tolist()


def test_a_prefix_is_shared_by_its_group_alone() -> None:
    stream = requests_from("poisson{n=40, prompt=64, prefix=32, prefixes=2}")
    names = stream.ids.reshape(40, 2)
    assert len({tuple(row) for row in names.tolist()}) == 2
    assert requests_from("poisson{n=4}").ids.tolist() == []
