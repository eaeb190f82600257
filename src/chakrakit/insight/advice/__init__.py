"""Advice: changes of a run that were tried by simulating them, with what each saves and how to make it."""

from __future__ import annotations

from chakrakit.insight.advice.advice import UNTRIED, Advice, advice_table
from chakrakit.insight.advice.advising import advise

__all__ = ["UNTRIED", "Advice", "advice_table", "advise"]
