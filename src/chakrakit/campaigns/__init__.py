"""Months of training: failures, checkpoints, recovery and spares on top of a step's time."""

from __future__ import annotations

from chakrakit.campaigns.campaign import campaign
from chakrakit.campaigns.job import Job, read_job
from chakrakit.campaigns.result import CampaignResult, Change, LostHours, Spread

__all__ = ["CampaignResult", "Change", "Job", "LostHours", "Spread", "campaign", "read_job"]
