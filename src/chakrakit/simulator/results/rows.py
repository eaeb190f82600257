"""Where the rows of a class of ranks are in an outcome, and what they run."""

from __future__ import annotations

from chakrakit.simulator.engine import Outcome, Program


def program_of(outcome: Outcome, c: int) -> Program:
    """What the ranks of a class run."""
    return outcome.membership.programs[outcome.membership.body(int(outcome.classes.first[c]))]


def class_rows(outcome: Outcome, c: int) -> slice:
    """Where the rows of a class are in the outcome's arrays."""
    return slice(int(outcome.offset[c]), int(outcome.offset[c + 1]))
