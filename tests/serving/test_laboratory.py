"""What papers propose can be told: sources, services, unlike engines, and what policies see and may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.serving import (
    EngineSpec,
    Fleet,
    RankFailure,
    Request,
    Service,
    Setup,
    hooks_of,
    run,
    serving_of,
)
from chakrakit.serving.requests import requests_from, stream_of
from support.serving_engines import by_tokens, constant, pool, together


class Retries:
    """Two requests; each that ends is asked once more, half a second later."""

    def __init__(self) -> None:
        self.stream = stream_of([0.0, 1.0], [8, 8], [3, 3], group=[0, 1])
        self.seen: list[Any] = []

    def next(self, now_s: float, finished: Sequence[Any]) -> list[Any]:
        self.seen += [(one.number, one.tag) for one in finished]
        first = [one for one in finished if one.tag is None]
        return [
            Request(prompt=8, output=3, at_s=now_s + 0.5, group=one.number, tag="again")
            for one in first
        ]


def test_a_source_makes_requests_of_what_has_ended() -> None:
    source = Retries()
    done = run(Setup(source.stream, [pool(cost=constant(0.01))], source=source))
    assert source.seen == [(0, None), (2, "again"), (1, None), (3, "again")]
    assert len(done.stream) == 4
    assert (done.requests["arrival"] * 1e-12).tolist() == pytest.approx([0.0, 1.0, 0.53, 1.53])


class Branches:
    """The first request is followed by three, all at once."""

    def __init__(self) -> None:
        self.tags: dict[int, Any] = {}

    def next(self, now_s: float, finished: Sequence[Any]) -> list[Any]:
        self.tags |= {one.number: one.tag for one in finished}
        first = [one for one in finished if one.number == 0]
        return [Request(prompt=8, output=3, tag=tag) for _ in first for tag in ("a", "b", "c")]


def test_requests_that_are_made_at_once_come_back_with_their_own_tags() -> None:
    source = Branches()
    run(Setup(stream_of([0.0], [8], [3]), [pool(cost=constant(0.01))], source=source))
    assert source.tags == {0: None, 1: "a", 2: "b", 3: "c"}


def test_a_source_of_something_else_is_refused() -> None:
    source = Retries()
    source.next = lambda *_: ["a request"]  # type: ignore[method-assign,list-item]
    with pytest.raises(ConfigError, match="a source gave 'a request'"):
        run(Setup(source.stream, [pool()], source=source))
    with pytest.raises(ConfigError, match="give a file, a process, a stream or a source"):
        ck.serve("llama-3.1-8b", "dgx-h100", 7)  # type: ignore[arg-type]


def test_a_branch_finds_what_its_parent_said() -> None:
    """A prompt of 64 tokens and an output of 33 give six full blocks of 16; the seventh is computed."""
    stream = stream_of(
        [0.0, 0.0, 0.0], [64, 100, 100], [33, 4, 4], after=[-1, 0, [0, 1]], continues=[-1, 0, 0]
    )
    done = run(Setup(stream, [pool(prefix_cache=True)]))
    assert done.requests["cached"].tolist() == [0, 96, 96]
    assert done.requests["arrival"][2] == done.requests["finish"][1]


def test_a_service_takes_the_time_of_its_kinds() -> None:
    """Two requests of one kind and one of another, at once: 1 + 2 × 3 + 5 ms."""
    items = stream_of([0.0] * 3, [1] * 3, [1] * 3, adapter=[0, 0, 1])
    seconds = {0: 0.003, 1: 0.005}
    service = Service(lambda n, kinds: 0.001 + sum(seconds[k] * c for k, c in kinds.items()))
    done = ck.serve(service=service, requests=items)
    assert (done.e2e_ms.mean, done.steps) == (pytest.approx(12.0), 1)
    small = Service(lambda n, k: 1.0, memory=10, item_bytes=10)
    with pytest.raises(ConfigError, match="a request of 2 items has no room; 1 fit"):
        ck.serve(service=small, requests=together(1, 2, 1))
    with pytest.raises(
        ConfigError, match="give one of: a model and a machine, engines, or a service"
    ):
        ck.serve("llama-3.1-8b", "dgx-h100", items, service=service)


SMALL = EngineSpec(model="llama-3.1-8b", machine="dgx-h100", count=2, devices=(0, 1))
LARGE = EngineSpec(model="llama-3.1-8b", machine="dgx-h100", tp=2, devices=(0,))


def test_requests_go_to_engines_that_serve_their_model() -> None:
    models = ("qwen3-14b", "llama-3.1-8b")
    stream = stream_of([0.0] * 4, [20] * 4, [2] * 4, model=[1, 0, 1, -1], models=models)
    other = EngineSpec(model="qwen3-14b", machine="dgx-h100")
    fleet = Fleet(
        specs=[EngineSpec(model="llama-3.1-8b", machine="dgx-h100"), other], stream=stream
    )
    assert fleet.served().outcome.requests["engine"][:3].tolist() == [0, 1, 0]
    with pytest.raises(ConfigError, match="which no engine serves; engines serve deepseek-v3-16b"):
        Fleet(
            specs=[EngineSpec(model="deepseek-v3-16b", machine="dgx-h100")], stream=stream
        ).served()


def test_a_change_of_shape_moves_what_devices_lack() -> None:
    """Of degree two from degree one nothing but caches moves; the other way half of the weights do."""
    fleet = Fleet(specs=[SMALL, LARGE], stream=together(4, 100, 4))
    assert fleet.setup.share_devices == [(0, 2), (1, 2)]
    assert fleet.open_seconds(2, 0) == 0.0
    assert fleet.open_seconds(2, 10_000) > 0.0
    weights = fleet.sessions[0].operators(1).weight_bytes
    rate = weights / 2 / fleet.open_seconds(0, 0)
    assert 0.6 * 450e9 < rate <= 450e9


def test_weights_of_another_model_come_from_the_store_to_all_devices_side_by_side() -> None:
    """Two devices each read their own half."""
    other = replace(LARGE, model="qwen3-14b")
    fleet = Fleet(specs=[SMALL, other], stream=together(4, 100, 4))
    half = fleet.sessions[1].operators(2).weight_bytes
    assert fleet.open_seconds(2, 0) == pytest.approx(half / (fleet.store_gbps * 1e9))


class Both:
    interval_s = 1.0

    def reconfigure(self, now_s: float, engines: Sequence[Any]) -> list[int]:
        return [0, 2]


def test_two_shapes_of_a_device_cannot_both_be_on() -> None:
    with pytest.raises(ConfigError, match="scale chose two engines that share devices"):
        ck.serve(engines=[SMALL, LARGE], requests=together(4, 100, 4), policy=Both())


class Looks:
    """Says what it sees of every step before it is taken."""

    def __init__(self, knows_output: bool) -> None:
        self.knows_output = knows_output
        self.left: list[int | None] = []
        self.seconds: list[float] = []

    def batch(self, running: Any, waiting: Any, engine: Any) -> list[tuple[int, int]]:
        self.left += [r.left for r in running]
        if running:
            context = sum(r.computed for r in running)
            self.seconds.append(engine.step_seconds(len(running), context))
        return [(r.number, 1000) for r in (*running, *waiting)]


def test_a_policy_knows_what_is_left_if_it_says_so_and_how_long_a_step_takes() -> None:
    stream = together(3, 8, 4)
    for knows, left in ((True, [3] * 3 + [2] * 3 + [1] * 3), (False, [None] * 9)):
        policy = Looks(knows)
        own = pool(cost=by_tokens(0.01, 0.001))
        done = run(Setup(stream, [own], hooks=hooks_of(policy), record_steps=True))
        assert policy.left == left
        took = (done.steps["end"] - done.steps["start"])[1:] * 1e-12
        assert policy.seconds == pytest.approx(took.tolist())


@pytest.mark.slow
def test_a_request_that_nobody_takes_ends_the_run() -> None:
    class Never:
        interval_s = 1.0

        def route(self, request: Any, engines: Any) -> int | None:
            return None if request.number == 1 else 0

        def scale(self, engines: Any, now_s: float) -> set[int]:
            return {0}

    done = ck.serve("llama-3.1-8b", "dgx-h100", "poisson{n=3,rate=1}", policy=Never())
    assert done.finished == 2
    assert any("1 requests were never served" in note for note in done.notes)


def test_rates_that_change_are_met_on_average(tmp_path: Any) -> None:
    file = tmp_path / "day.csv"
    file.write_text("0,1\n10,0\n20,9\n30,0\n")
    for text in ("regimes{rates=1:0:9,every=10,n=3000}", f"rates{{file={file},n=3000}}"):
        phase = requests_from(text).arrival_ps * 1e-12 % 30 // 10
        assert np.bincount(phase.astype(int)) / 3000 == pytest.approx([0.1, 0, 0.9], abs=0.02)
    times = requests_from("diurnal{rate=2,swing=1,period=100,n=4000}").arrival_ps * 1e-12
    assert np.mean(times % 100 < 50) == pytest.approx(0.5 + 1 / np.pi, abs=0.02)
    with pytest.raises(ConfigError, match="rates 'x'; give numbers"):
        requests_from("regimes{rates=x}")


def test_agents_keep_their_prefix_up_to_what_they_rewrote() -> None:
    still, rewritten = (
        requests_from(f"agents{{n=12,turns=12,prefix=640,prompt=160,edits={e},seed=3}}")
        for e in (0, 1)
    )
    assert still.prompt.tolist() == rewritten.prompt.tolist()
    for stream, kept in ((still, True), (rewritten, False)):
        rows = [stream.ids[stream.offsets[r] : stream.offsets[r + 1]].tolist() for r in range(12)]
        assert all(b[: len(a)] == a for a, b in pairwise(rows)) == kept


@pytest.mark.slow
def test_a_lost_rank_costs_its_share() -> None:
    """The pause is the lost experts over the tier, and a full engine of 8 goes on with 7 / 8.

    It is a little less, as each of the others reads an eighth of the lost experts besides its own.
    """
    failure = RankFailure(at_s=3.0, rank=1, tier_gbps=25.0)
    stream = "closed{concurrency=300,n=1700,prompt=64,output=lognormal:240:0.6}"
    settings = {"dp": 8, "ep": 8, "rank_faults": [failure], "compute": "roofline"}
    serving = serving_of("deepseek-v3-16b", "dgx-h100", stream, "vllm{max_num_seqs=16}", **settings)
    steps = serving.served(record_steps=True).outcome.steps
    start, end = steps["start"] * 1e-12, steps["end"] * 1e-12
    pause = start[start > 3.0].min() - 3.0
    assert pause == pytest.approx(serving.expert_bytes / 25e9, rel=0.05)
    rates = []
    for low, high in ((1.0, 2.95), (3.3 + pause, 5.2 + pause)):
        inside = (start >= low) & (end <= high)
        span = end[inside].max() - start[inside].min()
        rates.append(steps["tokens"][inside].sum() / span)
    assert 0.95 * 7 / 8 < rates[1] / rates[0] < 7 / 8, rates


def moves(*specs: EngineSpec) -> list[float]:
    """Milliseconds that a cache of 2,048 tokens takes from each kind of engines to each."""
    stream = stream_of([0.0, 1.0], [1024, 4096], [8, 8])
    setup = Fleet(specs=specs, stream=stream).setup
    return [1e3 * handover.seconds(2048) for handover in setup.handovers]


def test_caches_move_over_the_links_that_join_their_engines() -> None:
    """A cache has 268 MB: NVLink has 450 GB/s, an adapter of an H100's node 50, one of an A100's 25."""
    size = 2048 * 131072 / 1e6
    prefill = EngineSpec(model="llama-3.1-8b", machine="dgx-h100", role="prefill")
    near = EngineSpec(model="llama-3.1-8b", machine="dgx-h100", role="decode")
    far = EngineSpec(model="llama-3.1-8b", machine="dgx-a100", role="decode")
    inside = moves(prefill, near)[1]
    assert size / 450 < inside < 2 * size / 450
    beside = moves(prefill, near, far)
    assert beside[1] == pytest.approx(inside)
    assert size / 25 < beside[2] < 3 * size / 25
    many = EngineSpec(model="llama-3.1-8b", machine="dgx-h100", role="decode", count=8)
    assert size / 50 < moves(prefill, many)[1] < 3 * size / 50  # nine devices need two nodes
    other = EngineSpec(model="qwen3-14b", machine="dgx-h100")
    assert moves(prefill, near, other)[2] == 0.0  # which no cache goes to


class ToTheOther:
    """Every request goes to the second engine after its first token; engines and requests by their views."""

    def route(self, request: Any, engines: Any) -> Any:
        return engines[0]

    def migrate(self, requests: Any, engine: Any, engines: Any) -> Any:
        return [(r, engines[1]) for r in requests if engine.number == 0]


def test_migration_between_replicas_takes_its_time_and_answers_may_be_views() -> None:
    done = ck.serve(
        "llama-3.1-8b", "dgx-h100", together(2, 4096, 8), replicas=2, policy=ToTheOther()
    )
    assert done.moves == 2
    assert done.move_ms is not None
    assert done.move_ms.mean > 4096 * 131072 / 450e9 * 1e3


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("route", "first", "gave 'first'; give the number of a request or an engine, or its view"),
        ("migrate", [3], "gave 3; give pairs: for `batch` a request and its tokens"),
        ("migrate", None, "gave None; give pairs"),
    ],
)
def test_answers_that_are_nothing_are_refused(method: str, answer: Any, message: str) -> None:
    policy = type("Odd", (), {method: lambda self, *_: answer})()
    with pytest.raises(ConfigError, match=message):
        ck.serve("llama-3.1-8b", "dgx-h100", together(2, 64, 8), replicas=2, policy=policy)
