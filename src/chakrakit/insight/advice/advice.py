"""What would help: real changes of a run, tried one by one and ranked by what they save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from chakrakit.insight.rank import Table, ms, percent
from chakrakit.results import Result

NOTABLE = 0.01
"""The least share of a run that a change has to save to be advised: less is within the jitter of steps."""
UNTRIED = "no change was tried"
"""How a note begins that says why there is no advice."""


class Advice(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A change that was tried, and what it saves.

    Where the change gives the run another amount of work, such as a larger batch, times are those of the
    work that the run has.
    """

    what: str
    """The change, in words."""
    commands: list[str]
    """Command lines that make the change and time it."""
    saves_ns: float
    interval_ns: tuple[float, float] | None = None
    """Where the saving lies in 90 of 100 cases; None where nothing is known of its error."""
    before_ns: float
    after_ns: float
    same_training: bool = True
    """Whether the program computes what it did; a larger batch does not."""

    @property
    def share(self) -> float:
        """The share of the run that is saved."""
        return self.saves_ns / self.before_ns if self.before_ns else 0.0

    @property
    def certain(self) -> bool:
        """Whether it helps anywhere in the interval."""
        return self.interval_ns is None or self.interval_ns[0] > 0


def ranked(tried: Iterable[Advice]) -> list[Advice]:
    """Those that save enough, best first."""
    notable = [a for a in tried if a.share >= NOTABLE]
    return sorted(notable, key=lambda a: (not a.same_training, -a.saves_ns))


def advice_table(advice: Sequence[Advice]) -> Table:
    """One row per change."""
    rows = [
        (
            a.what,
            ms(a.saves_ns),
            percent(a.saves_ns, a.before_ns),
            "–" if a.interval_ns is None else f"{ms(a.interval_ns[0])} to {ms(a.interval_ns[1])}",
            " && ".join(a.commands),
        )
        for a in advice
    ]
    head = ("change", "saves ms", "%", "90 % of cases, ms", "command")
    return Table.of("what would help", head, rows)
