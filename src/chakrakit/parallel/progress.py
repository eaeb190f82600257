"""How long work says how far it has come."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int | None], None]
"""Called with what is done and, where that is known, with what there is in all."""


def quiet(_done: int, _total: int | None) -> None:
    """Say nothing."""
