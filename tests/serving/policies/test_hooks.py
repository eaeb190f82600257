"""Policies: every decision can be taken over, and bad decisions are refused."""

from __future__ import annotations

from typing import Any

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError

TIGHT = (
    "llama-3.1-8b",
    "dgx-h100",
    "closed{concurrency=8,n=24,prompt=100,output=60,prefix=64,prefixes=3}",
)


class Everything:
    """Takes every decision as the engine would, or in an order of its own, and counts."""

    interval_s = 0.1

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def count(self, name: str) -> None:
        self.asked[name] = self.asked.get(name, 0) + 1

    def admit(self, request: Any, engine: Any) -> bool:
        self.count("admit")
        return bool(request.prompt <= engine.total_blocks * 16)

    def preempt(self, candidates: Any, engine: Any) -> int:
        self.count("preempt")
        return int(max(candidates, key=lambda r: r.number).number)

    def evict(self, blocks: Any, engine: Any) -> int:
        self.count("evict")
        return int(blocks[-1])

    def route(self, request: Any, engines: Any) -> int:
        self.count("route")
        return int(engines[request.number % len(engines)].number)

    def scale(self, engines: Any, now_s: float) -> int:
        self.count("scale")
        return len(engines)


def test_every_decision_is_asked_for() -> None:
    """With few blocks all of them come up, and every request is still served."""
    policy = Everything()
    done = ck.serve(*TIGHT, kv_blocks=24, replicas=2, policy=policy)
    assert done.finished == 24
    assert set(policy.asked) == {"admit", "preempt", "evict", "route", "scale"}


def test_the_order_of_a_batch_is_the_policys() -> None:
    """Last come, first served: the last of a burst has its first token before the first."""

    class Newest:
        def batch(self, running: Any, waiting: Any, engine: Any) -> list[tuple[int, int]]:
            order = [*running, *reversed(waiting)]
            return [(r.number, 10_000) for r in order]

    stream = "closed{concurrency=6,n=6,prompt=500,output=4}"
    settings = {"engine": "vllm{max_num_seqs=2,async_scheduling=false}", "policy": Newest()}
    from chakrakit.serving import serving_of

    served = serving_of("llama-3.1-8b", "dgx-h100", stream, **settings).served()
    first = served.outcome.requests["first"]
    assert first[5] < first[0]


@pytest.mark.parametrize("answer", [-1, 99, 10**6])
def test_an_answer_that_makes_no_sense_is_refused(answer: int) -> None:
    """An engine that does not exist cannot take a request."""

    class Wrong:
        def route(self, request: Any, engines: Any) -> int:
            return answer

    with pytest.raises(ConfigError, match="route or place chose an engine"):
        ck.serve(*TIGHT, replicas=2, policy=Wrong())


def test_requests_that_are_never_admitted_are_counted() -> None:
    """A policy that turns requests away leaves them unfinished, and the result says so."""

    class Never:
        def admit(self, request: Any, engine: Any) -> bool:
            return bool(request.number != 3)

    done = ck.serve("llama-3.1-8b", "dgx-h100", "poisson{n=4,rate=1}", policy=Never())
    assert done.finished == 3
    assert any("1 requests were never served" in note for note in done.notes)


def test_a_policy_without_methods_is_refused() -> None:
    """With the names that it could have."""
    with pytest.raises(ConfigError, match="none of the methods admit, batch"):
        ck.serve(*TIGHT, policy=object())


def test_what_a_policy_raises_comes_out() -> None:
    """An error of the policy's own is not hidden by the core."""

    class Broken:
        def admit(self, request: Any, engine: Any) -> bool:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        ck.serve(*TIGHT, policy=Broken())
    with pytest.raises(ConfigError, match="interval_s is 0"):
        ck.serve(*TIGHT, policy=type("S", (), {"interval_s": 0, "scale": lambda *_: 1})())
