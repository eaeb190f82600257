"""Runs that served requests: analyzed, compared, reported and viewed, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.insight import Analysis, ServingFacts, analyze, answers, compare, interval_text
from chakrakit.serving import serve
from chakrakit.serving.results import ServeResult
from chakrakit.trace.sets import Run
from chakrakit.trace.storage import read
from chakrakit.views import html_report
from chakrakit.views.app.session import AppSession
from chakrakit.views.app.shown_run import ShownRun

STREAM = "poisson{rate=20,n=60,prompt=lognormal:300:1,output=lognormal:30:1,seed=2}"


class Made:
    """A Run on disk and what serving it said."""

    def __init__(self, place: Path, engine: str, **settings: int) -> None:
        self.place = place
        self.said: ServeResult = serve(
            "llama-3.1-8b", "dgx-h100", STREAM, engine, output=place, **settings
        )
        found = read(place)
        assert isinstance(found, Run)
        self.run = found
        self.analysis: Analysis = analyze(found)

    @property
    def facts(self) -> ServingFacts:
        assert self.analysis.serving is not None
        return self.analysis.serving


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("usual") / "run", "vllm")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("few") / "run", "vllm{max_num_seqs=2}")


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("apart") / "run", "vllm", prefill=1, decode=1)


def test_analyze_says_what_serve_says(usual: Made, apart: Made) -> None:
    for made in (usual, apart):
        for name in ("ttft_ms", "tpot_ms", "e2e_ms", "queue_ms"):
            told, said = getattr(made.facts, name), getattr(made.said, name)
            assert (told.mean, told.p99) == pytest.approx((said.mean, said.p99), rel=1e-5)
        assert made.facts.requests == made.said.requests
        assert sum(e.steps for e in made.facts.engines) == made.said.steps


def test_predicted_times_of_requests_have_their_intervals(usual: Made) -> None:
    facts = usual.facts
    low, high = facts.intervals["e2e_ms"]["mean"]
    assert low < facts.e2e_ms.mean < high
    first = answers(usual.analysis)[0]
    assert first.figure == interval_text(facts.e2e_ms.mean * 1e6, low * 1e6, high * 1e6)


def test_the_parts_of_a_request_sum_to_it(usual: Made) -> None:
    facts = usual.facts
    assert sum(facts.parts.values()) == pytest.approx(facts.e2e_ms.mean)
    for phase in (facts.prompt, facts.output):
        assert phase.steps_ms + phase.between_ms == pytest.approx(phase.ms)
    # One engine, always busy: an output is nothing but the steps that made it.
    assert facts.output.between_ms == pytest.approx(0.0, abs=0.01 * facts.output.ms)


def test_what_requests_wait_for_is_told(few: Made) -> None:
    """Two places in the batch and a cache that is nearly empty: requests wait for a place."""
    (engine,) = few.facts.engines
    assert max(engine.waits, key=lambda name: engine.waits[name]) == "a place in the batch"
    assert engine.cache_peak < 0.1 * engine.cache_capacity
    assert "in the queue" in answers(few.analysis)[0].sentence


def test_compare_explains_why_requests_take_longer(usual: Made, few: Made) -> None:
    """Fewer requests in a batch: each step is shorter, and all the rest is waiting."""
    change = compare(usual.run, few.run).serving
    assert change is not None
    delta = few.facts.e2e_ms.mean - usual.facts.e2e_ms.mean
    assert sum(p.delta_ms for p in change.explained) == pytest.approx(delta, abs=1e-3)
    assert sum(change.parts.values()) == pytest.approx(delta)
    assert change.explained[0].what == "waiting in the queue"
    assert "for a place in the batch" in change.sentence
    smaller = [p for p in change.explained if "in its steps" in p.what]
    assert {p.what.split()[1] for p in smaller} <= {"fewer", "shorter"}
    assert all(p.delta_ms < 0 for p in smaller)


@pytest.mark.slow
def test_compare_blames_slower_steps(usual: Made, tmp_path: Path) -> None:
    """One device instead of two: the steps themselves are slower."""
    two = Made(tmp_path / "two", "vllm", tp=2)
    change = ck.compare(two.place, usual.place).serving
    assert change is not None
    assert change.explained[0].what == "output: slower steps with the same batch"


def test_the_report_draws_requests_engines_and_the_cache(usual: Made, few: Made) -> None:
    page = html_report(few.analysis, {}, compare(usual.run, few.run))
    for title in (
        "Requests and engines",
        "Requests from arrival to end",
        "Tokens in the cache over time",
        "What explains the requests",
    ):
        assert title in page
    assert page.count("request 0, queued") == 1


def test_the_web_app_has_a_tab_and_lanes(usual: Made, apart: Made) -> None:
    session = AppSession([ShownRun(usual.run, "a", []), ShownRun(apart.run, "b", [])])
    assert "Serving" in session.summary()["tabs"]
    for side in session.sides:
        side.findings.start()
        side.findings.wait()
    assert "Tokens in the cache" in session.section(0, "Serving")["markup"]
    assert "What explains the requests" in session.section(0, "Comparison")["markup"]
    tracks = [t.title for t in session.sides[0].lines(0).tracks]
    assert any("stream" in title for title in tracks)
    assert len(tracks) > 1  # requests side by side have lanes of their own


def test_timelines_have_the_cache_as_a_counter(usual: Made) -> None:
    series = {s.name: s for s in usual.run.counters.series(0)}
    assert series["kv cache"].unit == "tokens"
    # The counter has what is held when steps end, the peak is that of all moments.
    assert 0.85 <= series["kv cache"].value.max() / usual.said.kv.peak_tokens <= 1
    assert {"batch", "queue depth waiting"} <= set(series)


def test_other_runs_have_no_requests() -> None:
    run = ck.simulate(
        ck.generate(model="gpt3-125m", dp=2, seq=64).traces, "dgx-h100", compute="roofline"
    )
    assert analyze(run.run()).serving is None


def test_the_slowest_requests_say_what_they_waited_for(usual: Made, few: Made) -> None:
    """With two at a time the slowest wait for their turn; else they compute."""
    said = {a.question: a for a in answers(few.analysis)}["What did the slowest requests wait for?"]
    assert said.figure == "their turn"
    assert "The queue waited for" in said.sentence
    questions = {a.question: a.figure for a in answers(usual.analysis)}
    assert questions["What did the slowest requests wait for?"] == "their output"
    assert "What is it bound by?" not in questions


def test_runs_of_one_token_are_analyzed_and_compared(tmp_path):
    """They have no time per output token; nothing else is missing."""
    for name, output in (("one", 1), ("several", 4)):
        stream = f"poisson{{rate=4,n=3,prompt=99,output={output}}}"
        ck.serve("llama-3.1-8b", "dgx-h100", stream, output=tmp_path / name)
    one = ck.analyze(tmp_path / "one").serving
    assert one.tpot_ms is None
    assert [row[0] for row in one.tables()[0].rows] == [
        "to the first token", "end to end", "in the queue"
    ]  # fmt: skip
    compared = ck.compare(tmp_path / "one", tmp_path / "several")
    assert {"ttft", "e2e"} <= compared.metrics.keys()
    assert "tpot" not in compared.metrics
