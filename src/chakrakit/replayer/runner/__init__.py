"""Executes plans with PyTorch and the standard library alone; copied as it is by `chakra replay --export`."""

from __future__ import annotations

from .collectives import FUNCTIONAL, ISSUED, MESSAGES, NO_WORK, REDUCTIONS
from .limits import ANY_OVERLOAD, COMPOSITE, REFUSED, is_listed
from .supervise import FOLLOWED, PIPE

__all__ = [
    "ANY_OVERLOAD",
    "COMPOSITE",
    "FOLLOWED",
    "FUNCTIONAL",
    "ISSUED",
    "MESSAGES",
    "NO_WORK",
    "PIPE",
    "REDUCTIONS",
    "REFUSED",
    "is_listed",
]
