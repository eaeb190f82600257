"""One rank of a run as arrays, what its rows waited for, and how results are shown."""

from __future__ import annotations

from chakrakit.insight.rank.causes import Cause, Causes, causes_of
from chakrakit.insight.rank.load import (
    as_run,
    facts_of,
    name_of,
    pairs,
    parse_ranks,
    read_run,
    scheduled,
)
from chakrakit.insight.rank.tracks import Borders, Track, Tracks, borders, tracks_of
from chakrakit.insight.rank.view import (
    KIND_NAMES,
    Cell,
    RankView,
    RowKind,
    Table,
    body_view,
    comm_name,
    ms,
    percent,
    rank_view,
    rank_views,
    short,
    stretches,
    us,
    view_of,
)

__all__ = [
    "KIND_NAMES",
    "Borders",
    "Cause",
    "Causes",
    "Cell",
    "RankView",
    "RowKind",
    "Table",
    "Track",
    "Tracks",
    "as_run",
    "body_view",
    "borders",
    "causes_of",
    "comm_name",
    "facts_of",
    "ms",
    "name_of",
    "pairs",
    "parse_ranks",
    "percent",
    "rank_view",
    "rank_views",
    "read_run",
    "scheduled",
    "short",
    "stretches",
    "tracks_of",
    "us",
    "view_of",
]
