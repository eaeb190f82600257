"""Months of training: failures, checkpoints, recovery and spares on top of a step's time."""

from __future__ import annotations

from chakrakit.campaigns.chains import Chain, RetryPlan, retry_chain
from chakrakit.campaigns.job import CampaignJob, read_job
from chakrakit.campaigns.many_histories import campaign, workers_for
from chakrakit.campaigns.pool import Guarding, Pool, PoolPlan, PoolRun, pool_run
from chakrakit.campaigns.recorded import history_run
from chakrakit.campaigns.result import CampaignResult
from chakrakit.campaigns.telemetry import SIGNALS, SIGNS, Incident, Telemetry, telemetry

__all__ = [
    "SIGNALS",
    "SIGNS",
    "CampaignJob",
    "CampaignResult",
    "Chain",
    "Guarding",
    "Incident",
    "Pool",
    "PoolPlan",
    "PoolRun",
    "RetryPlan",
    "Telemetry",
    "campaign",
    "history_run",
    "pool_run",
    "read_job",
    "retry_chain",
    "telemetry",
    "workers_for",
]
