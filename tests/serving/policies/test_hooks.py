"""Policies: every decision can be taken over, and bad decisions are refused."""

from __future__ import annotations

from typing import Any

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.serving import Codec

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


def test_what_a_router_sees_in_a_cache_is_what_the_request_finds_there() -> None:
    """Requests one after the other: nothing is evicted between the choice and the first step."""

    class Nearest:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def route(self, request: Any, engines: Any) -> int:
            best = max(engines, key=lambda engine: engine.matched(request.number))
            assert (best.waiting, best.running) == (0, 0)
            assert (best.waiting_requests, best.running_requests) == ([], [])
            assert best.tokens_held == best.tokens_promised == best.prompt_waiting == 0
            assert best.free_blocks == best.total_blocks
            self.seen.append(best.matched(request.number))
            return int(best.number)

    from chakrakit.serving import serving_of

    policy, stream = Nearest(), "poisson{rate=0.1,n=12,prompt=200,output=4,prefix=128,prefixes=2}"
    served = serving_of("llama-3.1-8b", "dgx-h100", stream, replicas=2, policy=policy).served()
    assert policy.seen == served.outcome.requests["cached"].tolist()
    assert policy.seen.count(0) == 2  # the first of each prefix
    assert set(policy.seen) == {0, 128}


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("route", -1, "chose engine -1 for request 0; choose one of the engines that are given"),
        ("route", 10**6, "chose engine 1000000 for request 0"),
        ("batch", [(0, -5)], "batch gives request 0 -5 tokens; give 1 or more"),
        ("batch", [(10**6, 1)], "batch chose request 1000000, which is not there"),
        ("finish", [10**6], "finish chose request 1000000, which got no token"),
        ("migrate", [(10**6, 1)], "migrate chose request 1000000, which does not run"),
        ("scale", [7], "scale chose engine 7; engines are 0 to 1"),
        ("scale", 0, "scale left no engine; keep one at least"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(method: str, answer: Any, said: str) -> None:
    """With what was chosen, and what could be."""
    wrong = type("Wrong", (), {method: lambda *_asked: answer})
    with pytest.raises(ConfigError, match=f"policy: .*{said}"):
        ck.serve(*TIGHT, replicas=2, policy=wrong())


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


AGENTS = "agents{rate=4,n=60,turns=4,prompt=200,prefix=600,prefixes=6,edits=0.5,front=0.5,seed=1}"


class Halves:
    """Asks for a share of the memory that changes, and writes down what it saw."""

    divide_every = 5

    def __init__(self, answers: list[Any]) -> None:
        self.answers, self.seen = answers, list[Any]()

    def divide(self, engine: Any, memory: Any) -> Any:
        self.seen.append(memory)
        return self.answers[min(len(self.seen), len(self.answers)) - 1]


def test_a_policy_divides_an_engines_memory() -> None:
    """The border is where it was put, and near misses are among the misses."""
    policy = Halves([0.4, None, 0.1])
    engine = "vllm{num_gpu_blocks_override=300,content_gib=0.2}"
    done = ck.serve("llama-3.1-8b", "dgx-h100", AGENTS, engine, policy=policy)
    assert done.finished == 60
    shares = [memory.share for memory in policy.seen[1:4]]
    assert shares == pytest.approx([0.4, 0.4, 0.1], abs=1e-3)
    for memory in policy.seen:
        assert memory.tokens == policy.seen[0].tokens
        for counts in (memory.content, memory.pages):
            assert 0 <= counts.near_misses <= counts.misses
    assert any(memory.content.hits for memory in policy.seen)


@pytest.mark.parametrize(
    ("policy", "engine", "said"),
    [
        (Halves([0.5]), "vllm", "give every engine content_gib"),
        (Halves([0.5]), "vllm{content_gib=1,content_shared=true}", "leave out content_shared"),
        (Halves([1.5]), "vllm{content_gib=1}", "divide gave 1.5; give a share from 0 to 1"),
        (Halves([float("nan")]), "vllm{content_gib=1}", "divide gave nan"),
    ],
)
def test_a_memory_that_cannot_be_divided_is_refused(policy: Any, engine: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ck.serve("llama-3.1-8b", "dgx-h100", AGENTS, engine, policy=policy)


class Stored:
    """One codec for everything that goes to the store."""

    def __init__(self, number: int) -> None:
        self.number, self.asked = number, 0

    def store_codec(self, request: Any, engine: Any, link: Any) -> int:
        self.asked += 1
        assert link.factor == 0.5
        return self.number


def test_a_policy_encodes_blocks_of_the_store() -> None:
    """With a quarter of its bytes a block comes sooner, and more of them are found."""
    engine = "vllm{num_gpu_blocks_override=300,remote_gib=0.4,remote_gbps=1}"
    given = {"codecs": [Codec("none"), Codec("int4", 4.0, 100.0, 100.0)]}
    stream = "poisson{rate=4,n=80,prompt=2000,output=4,prefix=1600,prefixes=9}"
    done = [
        ck.serve(
            *("llama-3.1-8b", "dgx-h100", stream, engine),
            policy=policy,
            store_schedule=[(0.0, 0.5)],
            **given,
        )
        for policy in (Stored(0), Stored(1))
    ]
    assert done[1].cache_hit_rate > done[0].cache_hit_rate
    assert done[1].ttft_ms.mean < done[0].ttft_ms.mean
    with pytest.raises(ConfigError, match="store_codec chose one that is not there"):
        ck.serve(
            "llama-3.1-8b", "dgx-h100", stream, engine, policy=Stored(2), store_schedule=[(0, 0.5)]
        )
    with pytest.raises(ConfigError, match="give engines remote_gib"):
        ck.serve("llama-3.1-8b", "dgx-h100", stream, policy=Stored(0))
