"""One history of a campaign: processes of failures, policies, and the events between them."""

from __future__ import annotations

from chakrakit.campaigns.engine.bounds import AtLeastOne, Nodes, Share, Spares
from chakrakit.campaigns.engine.cadence import NEVER, Cadence
from chakrakit.campaigns.engine.checkpoints import (
    CHECKPOINT_POLICIES,
    CheckpointPolicy,
    Situation,
    Tier,
    Tiered,
)
from chakrakit.campaigns.engine.closed_forms import daly_interval, young_interval
from chakrakit.campaigns.engine.durations import Duration, Exponential, Fixed, Uniform, Weibull
from chakrakit.campaigns.engine.failures import SCOPES, LoggedFailure, Process, Scope, Slowness
from chakrakit.campaigns.engine.history import History, Watcher
from chakrakit.campaigns.engine.job_in_progress import JobInProgress
from chakrakit.campaigns.engine.outcome import Outcome
from chakrakit.campaigns.engine.plan import Plan
from chakrakit.campaigns.engine.recovery import RECOVERY_POLICIES, Elastic, Recovery

__all__ = [
    "CHECKPOINT_POLICIES",
    "NEVER",
    "RECOVERY_POLICIES",
    "SCOPES",
    "AtLeastOne",
    "Cadence",
    "CheckpointPolicy",
    "Duration",
    "Elastic",
    "Exponential",
    "Fixed",
    "History",
    "JobInProgress",
    "LoggedFailure",
    "Nodes",
    "Outcome",
    "Plan",
    "Process",
    "Recovery",
    "Scope",
    "Share",
    "Situation",
    "Slowness",
    "Spares",
    "Tier",
    "Tiered",
    "Uniform",
    "Watcher",
    "Weibull",
    "daly_interval",
    "young_interval",
]
