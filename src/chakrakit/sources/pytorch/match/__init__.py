"""Which observer node is which Kineto event, and all of a rank on one clock."""

from __future__ import annotations

from chakrakit.sources.pytorch.match.joining import Join, join
from chakrakit.sources.pytorch.match.rows import RowNames, inherit, nearest
from chakrakit.sources.pytorch.match.timeline import Timeline, build_timeline
from chakrakit.sources.pytorch.match.two_passes import align_passes

__all__ = [
    "Join",
    "RowNames",
    "Timeline",
    "align_passes",
    "build_timeline",
    "inherit",
    "join",
    "nearest",
]
