"""The search for the best plan."""

from __future__ import annotations

from chakrakit.exploration.search.configurations import (
    SERVING,
    TRAINING,
    VERSIONS,
    write_configurations,
)
from chakrakit.exploration.search.plan_search import SearchResult, machine_for, search
from chakrakit.exploration.search.script_search import ScriptPlan, ScriptSearchResult, search_script
from chakrakit.exploration.search.searcher import PlanResult
from chakrakit.exploration.search.serving_search import (
    ServingPlan,
    ServingSearchResult,
    search_serving,
    search_serving_on,
)
from chakrakit.exploration.search.space import space_of, workloads

__all__ = [
    "SERVING",
    "TRAINING",
    "VERSIONS",
    "PlanResult",
    "ScriptPlan",
    "ScriptSearchResult",
    "SearchResult",
    "ServingPlan",
    "ServingSearchResult",
    "machine_for",
    "search",
    "search_script",
    "search_serving",
    "search_serving_on",
    "space_of",
    "workloads",
    "write_configurations",
]
