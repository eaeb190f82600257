"""Values inside recordings, which anybody may have written: whole numbers that fit, lists of JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

LARGEST = 1 << 62
"""Sums and differences of two numbers up to this still fit into 64 bits."""
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


def json_value(text: str | None) -> Any:
    """What a text of JSON says; None where it is none, or is nested deeper than anything real."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def json_list(text: str | None) -> list[Any]:
    """The list that a text of JSON says; [] for all else."""
    found = json_value(text)
    return found if isinstance(found, list) else []
