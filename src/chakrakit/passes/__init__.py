"""Trace to trace: `from chakrakit.passes import Recost, ScaleRanks`; each is imported when first used."""

from __future__ import annotations

from chakrakit.passes.registry import PASSES, pass_class


def __getattr__(name: str) -> object:
    for spelling, place in PASSES.items():
        if place.endswith(f":{name}"):
            return pass_class(spelling)
    raise AttributeError(f"module 'chakrakit.passes' has no attribute {name!r}")
