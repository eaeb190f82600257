"""Months of training: failures, checkpoints, recovery and spares on top of a step's time."""

from __future__ import annotations

from chakrakit.campaigns.job import CampaignJob, read_job
from chakrakit.campaigns.many_histories import campaign, workers_for
from chakrakit.campaigns.recorded import history_run
from chakrakit.campaigns.result import CampaignResult

__all__ = ["CampaignJob", "CampaignResult", "campaign", "history_run", "read_job", "workers_for"]
