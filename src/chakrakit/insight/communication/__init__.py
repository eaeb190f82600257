"""Communication with times: who came when, who waited, how fast it was."""

from __future__ import annotations

from chakrakit.insight.communication.flows import Flows, joined, own_flows, shared_flows
from chakrakit.insight.communication.matching import (
    AllCalls,
    Matched,
    RankCalls,
    calls_of,
    match_calls,
)
from chakrakit.insight.communication.stragglers import (
    SlowLink,
    Straggler,
    Stragglers,
    stragglers_of,
)
from chakrakit.insight.communication.summary import (
    CollectiveKind,
    Communication,
    communication,
    communication_of,
)

__all__ = [
    "AllCalls",
    "CollectiveKind",
    "Communication",
    "Flows",
    "Matched",
    "RankCalls",
    "SlowLink",
    "Straggler",
    "Stragglers",
    "calls_of",
    "communication",
    "communication_of",
    "joined",
    "match_calls",
    "own_flows",
    "shared_flows",
    "stragglers_of",
]
