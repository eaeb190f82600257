"""The analysis of a run, made in a thread of its own when it is first wanted."""

from __future__ import annotations

import threading

import numpy as np

from chakrakit import insight
from chakrakit.errors import TraceError
from chakrakit.views.app.findings import BackgroundAnalysis


def test_it_begins_when_asked_and_keeps_what_it_found(two_ranks):
    findings = BackgroundAnalysis(two_ranks)
    assert (findings.state, findings.done, findings.total) == ("idle", 0, 2)
    analyzed = findings.wait()
    assert findings.state == "done"
    assert findings.done == findings.total
    assert findings.wait() is analyzed


def test_the_path_is_told_rank_by_rank(two_ranks):
    """Rank 1 computes until 30 µs and comes last to the sum: its forward pass is on the path."""
    analyzed = BackgroundAnalysis(two_ranks).wait()
    line = analyzed.path(1)
    assert (int(line.start[0]), int(line.end[0])) == (0, 30_000)
    assert 1 in analyzed.on_path(1, np.array([2, 0, 1], np.int32)).tolist()
    assert analyzed.on_path(0, np.array([0], np.int32)).tolist() == []
    longest, count = analyzed.longest(0, 60_000, 1)
    assert [(s.rank, s.name) for s in longest] == [(1, "forward")]
    assert count == len(analyzed.analysis.critical_path.segments)
    assert analyzed.longest(56_000, 60_000, 5) == ([], 0)


def test_a_run_that_cannot_be_analyzed_says_why(two_ranks, monkeypatch):
    def refuse(*_):
        raise TraceError("a circle of waits")

    monkeypatch.setattr(insight, "analyze_rows", refuse)
    findings = BackgroundAnalysis(two_ranks)
    assert findings.wait() is None
    assert (findings.state, findings.error) == ("failed", "a circle of waits")


def test_too_little_memory_is_no_silence(two_ranks, monkeypatch):
    def exhaust(*_):
        raise MemoryError

    monkeypatch.setattr(insight, "analyze_rows", exhaust)
    findings = BackgroundAnalysis(two_ranks)
    assert findings.wait() is None
    assert "not enough memory to analyze this run; choose ranks" in findings.error


def test_a_path_of_many_segments_is_converted_in_pieces(two_ranks, monkeypatch):
    """Between pieces other threads answer; the lines are the same as at one go."""
    whole = BackgroundAnalysis(two_ranks).wait()
    monkeypatch.setattr("chakrakit.views.app.findings._PIECE", 2)
    pieces = BackgroundAnalysis(two_ranks).wait()
    for rank in (0, 1):
        a, b = whole.path(rank), pieces.path(rank)
        assert (a is None) == (b is None)
        if a is not None:
            for field in ("start", "end", "row", "code"):
                assert getattr(a, field).tolist() == getattr(b, field).tolist()
    segments = whole.analysis.critical_path.segments
    assert sum(len(pieces.path(r) or ()) for r in (0, 1)) == len(segments)


def test_two_runs_are_analyzed_one_after_the_other(two_ranks, monkeypatch):
    """A second analysis, begun while the first is under way, starts when that has ended."""
    began, go_on = threading.Semaphore(0), threading.Semaphore(0)
    real = insight.analyze_rows

    def held(*given):
        began.release()
        go_on.acquire()
        return real(*given)

    monkeypatch.setattr(insight, "analyze_rows", held)
    both = [BackgroundAnalysis(two_ranks) for _ in range(2)]
    for findings in both:
        findings.start()
    began.acquire()
    assert not began.acquire(timeout=0.05)
    go_on.release(2)
    assert all(findings.wait() for findings in both)
