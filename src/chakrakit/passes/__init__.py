"""Trace to trace: `from chakrakit.passes import Recost, ScaleRanks`; each is imported when first used."""

from __future__ import annotations

from chakrakit.passes.base import PASSES, pass_class

_NAMES = {place.partition(":")[2]: name for name, place in PASSES.items()}

__all__ = list(_NAMES)


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'chakrakit.passes' has no attribute {name!r}")
    return pass_class(_NAMES[name])
