"""Months of training: failures, checkpoints, recovery and spares on top of a step's time."""

from __future__ import annotations

from chakrakit.campaigns.chains import Chain, RetryPlan, retry_chain
from chakrakit.campaigns.checkpoints import CheckpointPolicy, Interval, Situation, Tier
from chakrakit.campaigns.job import CampaignJob, read_job
from chakrakit.campaigns.many_histories import campaign, workers_for
from chakrakit.campaigns.pool import Guarding, Pool, PoolPlan, PoolRun, pool_run
from chakrakit.campaigns.recorded import history_run
from chakrakit.campaigns.recovery import JobInProgress, Recovery
from chakrakit.campaigns.result import CampaignResult
from chakrakit.campaigns.telemetry import SCATTER, SIGNALS, SIGNS, Incident, Telemetry, telemetry

__all__ = [
    "SCATTER",
    "SIGNALS",
    "SIGNS",
    "CampaignJob",
    "CampaignResult",
    "Chain",
    "CheckpointPolicy",
    "Guarding",
    "Incident",
    "Interval",
    "JobInProgress",
    "Pool",
    "PoolPlan",
    "PoolRun",
    "Recovery",
    "RetryPlan",
    "Situation",
    "Telemetry",
    "Tier",
    "campaign",
    "history_run",
    "pool_run",
    "read_job",
    "retry_chain",
    "telemetry",
    "workers_for",
]
