"""The report: complete in itself, every name escaped, the answers first."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.insight import analyze, answers, compare_analyses
from chakrakit.trace.sets import Times, run_of
from chakrakit.views import html_report, markdown_report
from support import paths
from support.recorded import linked

DATA = paths.DATA / "pytorch"
EVIL = '</title></script><script>alert(1)</script><img src=x onerror="alert(2)">'


class Page(HTMLParser):
    """Checks that elements are closed in order, and keeps what is of interest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.links += [v for k, v in attrs if k in ("src", "href", "action")]
        assert not any(k.startswith("on") for k, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def recorded():
    return analyze(linked("gpt_fsdp_tp_4"))


@pytest.mark.slow
def test_the_page_needs_nothing_from_outside(recorded):
    text = html_report(recorded, {"": "run"})
    page = Page(text)
    assert page.links == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert page.seen["svg"] >= 8
    assert page.seen["script"] == 1
    assert "default-src 'none'" in unescape(text)


@pytest.mark.slow
def test_answers_come_first(recorded):
    text = html_report(recorded, {})
    first_answers = answers(recorded)
    assert [a.question for a in first_answers][:3] == [
        "How long is a step?",
        "What is it bound by?",
        "How much communication is exposed?",
    ]
    assert text.index(first_answers[0].figure) < text.index("<svg")


def evil_run() -> ck.Run:
    t = ck.TraceBuilder()
    a = t.comp(EVIL, stream=7, duration_ns=1000, module=EVIL, num_ops=5, tensor_size=7)
    t.collective(EVIL, ck.CollectiveType.ALL_REDUCE, 8, pg_name=EVIL, stream=20, deps=[a])
    traces = ck.TraceSet([t.build()], groups=ck.Groups({EVIL: [0]}), card=ck.Card(name=EVIL))
    return run_of(traces, {0: Times(np.array([0, 1000]), np.array([1000, 3000]))}, tick_ps=1000)


def test_names_of_a_trace_are_text_and_nothing_else():
    result = analyze(evil_run())
    text = html_report(result, {"": EVIL}, compare_analyses([result], [result]))
    page = Page(text)
    assert page.seen["script"] == 1
    assert "img" not in page.seen
    markdown = markdown_report(result, {"": EVIL})
    assert "<script" not in markdown
    assert "<img" not in markdown


def test_markdown_has_answers_and_tables(recorded):
    text = markdown_report(recorded, {"": "run"})
    assert "**What is it bound by?**" in text
    assert "| rank |" in text


def test_the_command(tmp_path, capfdbinary):
    ck.write(evil_run(), tmp_path / "run")
    run, page = str(tmp_path / "run"), tmp_path / "r.html"
    main(["report", run, "-o", str(page), "--against", run], standalone_mode=False)
    assert page.read_text().startswith("<!doctype html>")
    assert "Against the other run" in page.read_text()
    main(["report", run, "-o", str(tmp_path / "r.md"), "--md"], standalone_mode=False)
    assert (tmp_path / "r.md").read_text().startswith("# ")
    capfdbinary.readouterr()
    main(["report", run, "--json"], standalone_mode=False)
    assert json.loads(capfdbinary.readouterr().out)["span_ns"] == 3000


def test_a_run_of_nothing_still_makes_a_page():
    run = run_of(
        ck.TraceSet([ck.TraceBuilder().build()]),
        {0: Times(np.zeros(0, np.int64), np.zeros(0, np.int64))},
    )
    page = html_report(analyze(run), {})
    Page(page)  # closes every tag that it opens
    assert "no node takes any time" in page


def test_ranks_that_spend_their_time_alike_share_a_bar(two_ranks):
    alike = run_of(
        ck.TraceSet([two_ranks.trace(0)], {r: ck.Binding(0) for r in range(64)}),
        {r: two_ranks.times[r == 7] for r in range(64)},
        tick_ps=1000,
    )
    text = html_report(analyze(alike), {})
    assert "ranks 0–6, 8–63 (63)" in text
    assert "Ranks with the same times share a bar." in text


def test_more_bars_than_a_page_can_show_are_counted():
    bodies, times = [], {}
    for rank in range(40):
        t = ck.TraceBuilder()
        t.comp("a", duration_ns=100 + rank, stream=0)
        bodies.append(t.build())
        times[rank] = Times(np.array([0]), np.array([100 + rank]))
    text = html_report(analyze(run_of(ck.TraceSet(bodies), times, tick_ps=1000)), {})
    assert "The other 8 ranks are left out" in text


def test_what_layers_do_alike_is_summed_in_charts(two_ranks):
    t = ck.TraceBuilder()
    for layer in range(3):
        t.comp(f"layers.{layer}.mlp", duration_ns=1000, stream=0)
    starts = np.arange(3) * 1000
    run = run_of(ck.TraceSet([t.build()]), {0: Times(starts, starts + 1000)}, tick_ps=1000)
    assert "compute: layers.*.mlp: 3.00 µs (100.0 %)" in html_report(analyze(run), {})
