"""What `chakra score` prints."""

from __future__ import annotations

import pytest

from chakrakit.exploration.scoring import Score, ScoreResult
from support.commands import succeeded

SCORES = [
    Score("mine", "one", truth_ns=2_500_000.0, step_ns=1_234_567.0, error=-0.506),
    Score("other", "one", truth_ns=2_500_000.0, failed="no licence"),
]
RESULT = ScoreResult("library", SCORES, {"mine": 0.506}, {"mine": 0.506}, {"mine": 0, "other": 1})


def test_times_are_milliseconds_and_errors_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chakrakit.exploration.scoring.score", lambda *_, **__: RESULT)
    text = succeeded("score", "library")
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["mine"] == ["one", "2.5", "1.235", "-50.6"]
    assert rows["other"] == ["one", "2.5", "no", "licence"]
    assert "mine: 50.6 % on average, at most 50.6 %" in text


def test_what_could_not_be_said_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"mine": 0.1, "other": 0.2}
    result = ScoreResult("library", SCORES, both, both, {"mine": 0, "other": 3})
    monkeypatch.setattr("chakrakit.exploration.scoring.score", lambda *_, **__: result)
    text = succeeded("score", "library")
    assert "other: 20.0 % on average, at most 20.0 %, 3 could not be said" in text
