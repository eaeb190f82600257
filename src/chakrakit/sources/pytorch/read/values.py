"""Values inside recordings, which anybody may have written: whole numbers that fit."""

from __future__ import annotations

from typing import Annotated

import msgspec

from chakrakit.operators import LARGEST

Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
"""A field of a recording that is a number up to `LARGEST`, by which msgspec refuses others."""


def whole(said: object, most: int = LARGEST) -> int | None:
    """A number between -`most` and `most`, also where it is written as text; None for all else."""
    if isinstance(said, str | bytes):
        try:
            said = int(said)
        except ValueError:
            return None
    fits = isinstance(said, int) and not isinstance(said, bool) and -most <= said <= most
    return said if fits and isinstance(said, int) else None
