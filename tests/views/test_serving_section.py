"""A served stream in a report: where requests spend their time, and why that changed."""

import chakrakit as ck
from chakrakit.insight.served_requests import serving_change, serving_facts
from chakrakit.views.report import serving_change_parts, serving_parts
from support.served import served


def test_requests_engines_and_the_cache_are_drawn():
    """Two requests of 30 ms on an engine whose cache holds 100 tokens."""
    markup = "".join(map(str, serving_parts(ck.analyze(served()))))
    assert "2 requests, ms" in markup
    assert "mean request: queued 5.00 ms (16.7 %)" in markup
    assert "request 1, prompt: 10.0 ms" in markup
    for title in ("Tokens in the cache", "Requests in a batch", "Requests in the queue"):
        assert markup.count(f"{title} over time") == 1
    assert "Dotted: what the cache can hold." in markup


def test_a_run_that_served_nobody_has_no_section(two_ranks):
    assert list(serving_parts(ck.analyze(two_ranks))) == []


def test_why_the_mean_request_takes_longer():
    change = serving_change(serving_facts(served()), serving_facts(served(2)))
    markup = "".join(map(str, serving_change_parts(change)))
    assert "The mean request takes 60.0 ms instead of 30.0: B takes 30.0 ms longer" in markup
    assert "output: slower steps with the same batch: +15.00 ms" in markup


def test_a_report_says_where_step_times_come_from(tmp_path):
    stream = "poisson{rate=5, n=4, prompt=1024, output=128}"
    result = ck.serve(
        model="llama3-8b",
        machine="dgx-h100",
        engine="vllm",
        requests=stream,
        output=tmp_path / "run",
    )
    assert "published runs of vllm" in result.step_times
    ck.report(tmp_path / "run", tmp_path / "run.html")
    assert f"step times: {result.step_times}" in (tmp_path / "run.html").read_text()
