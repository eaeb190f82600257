"""Communication with times: who came when, who waited, how fast it was."""

from __future__ import annotations

from chakrakit.insight.communication.flows import (
    RankArrows,
    communication_arrows,
    dependency_arrows,
    joined_arrows,
)
from chakrakit.insight.communication.matching import (
    AllCalls,
    Matched,
    RankCalls,
    calls_of,
    match_calls,
)
from chakrakit.insight.communication.roles import group_roles
from chakrakit.insight.communication.stragglers import (
    SlowLink,
    Straggler,
    Stragglers,
    stragglers_of,
)
from chakrakit.insight.communication.summary import (
    CollectiveKind,
    CommunicationSummary,
    communication,
    communication_of,
    role_of,
)

__all__ = [
    "AllCalls",
    "CollectiveKind",
    "CommunicationSummary",
    "Matched",
    "RankArrows",
    "RankCalls",
    "SlowLink",
    "Straggler",
    "Stragglers",
    "calls_of",
    "communication",
    "communication_arrows",
    "communication_of",
    "dependency_arrows",
    "group_roles",
    "joined_arrows",
    "match_calls",
    "role_of",
    "stragglers_of",
]
