"""Months of training: failures, checkpoints, recovery and spares on top of a step's time."""

from __future__ import annotations

from chakrakit.campaigns.job import Job, read_job
from chakrakit.campaigns.many_histories import campaign, workers_for
from chakrakit.campaigns.recorded import history_run
from chakrakit.campaigns.result import CampaignResult

__all__ = ["CampaignResult", "Job", "campaign", "history_run", "read_job", "workers_for"]
