"""What every search gives: the best, and the others after it."""

from __future__ import annotations

from typing import Any

from chakrakit.results import Result


class Ranked(Result):
    """Mixed into a struct with the fields `best` and `runners_up`."""

    __slots__ = ()
    best: Any
    runners_up: list[Any]

    def table_rows(self) -> list[Any]:
        """The best first."""
        return [self.best, *self.runners_up]
