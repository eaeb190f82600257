"""Simulators held against steps that were timed."""

from __future__ import annotations

from chakrakit.exploration.scoring.scores import Score, ScoreResult, score

__all__ = ["Score", "ScoreResult", "score"]
