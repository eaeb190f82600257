"""Many histories: what they come to, how sure that is, and what a change would give."""

from __future__ import annotations

from chakrakit.campaigns.results.history_run import history_run
from chakrakit.campaigns.results.many_histories import campaign, workers_for
from chakrakit.campaigns.results.result import CampaignResult, Change, LostHours, Spread

__all__ = [
    "CampaignResult",
    "Change",
    "LostHours",
    "Spread",
    "campaign",
    "history_run",
    "workers_for",
]
