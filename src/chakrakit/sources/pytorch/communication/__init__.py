"""Communication of recordings: calls, groups, and one clock for all ranks."""

from __future__ import annotations

from chakrakit.sources.pytorch.communication import names
from chakrakit.sources.pytorch.communication.calls import (
    Collective,
    assign_groups,
    find_collectives,
    name_peers,
    number_in_groups,
)
from chakrakit.sources.pytorch.communication.clocks import Clock, Recorded, align_clocks
from chakrakit.sources.pytorch.communication.groups import Groups, groups_of, infer_across_ranks
from chakrakit.sources.pytorch.communication.windows import align_windows

__all__ = [
    "Clock",
    "Collective",
    "Groups",
    "Recorded",
    "align_clocks",
    "align_windows",
    "assign_groups",
    "find_collectives",
    "groups_of",
    "infer_across_ranks",
    "name_peers",
    "names",
    "number_in_groups",
]
