"""What a pass is, how it is written, found and applied."""

from __future__ import annotations

from chakrakit.passes.base.base import Pass, map_bodies, narrow, with_bodies
from chakrakit.passes.base.catalog import PassList, list_passes
from chakrakit.passes.base.pipeline import Applied, Transformed, transform
from chakrakit.passes.base.registry import PASSES, pass_class
from chakrakit.passes.base.spec import parse, read_passes
from chakrakit.passes.base.spelling import split

__all__ = [
    "PASSES",
    "Applied",
    "Pass",
    "PassList",
    "Transformed",
    "list_passes",
    "map_bodies",
    "narrow",
    "parse",
    "pass_class",
    "read_passes",
    "split",
    "transform",
    "with_bodies",
]
