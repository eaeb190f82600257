"""The critical path across ranks, and what would change it."""

from __future__ import annotations

from chakrakit.insight.critical_path.bound import Bound, bound_of, path_bound, with_loader
from chakrakit.insight.critical_path.critical_path import (
    CriticalPath,
    LoadedEvents,
    RankEnd,
    RankEvents,
    Segment,
    add_peers,
    end_of,
    events_of,
    walk,
)
from chakrakit.insight.critical_path.model import Model, RankGraph, RankGraphs, graph_of
from chakrakit.insight.critical_path.whatif import (
    RankNames,
    WhatIf,
    kinds_of,
    kinds_only,
    names_of,
    slack_by_rank,
    what_if_of,
)

__all__ = [
    "Bound",
    "CriticalPath",
    "LoadedEvents",
    "Model",
    "RankEnd",
    "RankEvents",
    "RankGraph",
    "RankGraphs",
    "RankNames",
    "Segment",
    "WhatIf",
    "add_peers",
    "bound_of",
    "end_of",
    "events_of",
    "graph_of",
    "kinds_of",
    "kinds_only",
    "names_of",
    "path_bound",
    "slack_by_rank",
    "walk",
    "what_if_of",
    "with_loader",
]
