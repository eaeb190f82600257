"""Fail-slow, stragglers and hangs: who is to blame, since when, and by how much."""

from __future__ import annotations

from chakrakit.insight.diagnosis.culprit import Culprit, CulpritKind
from chakrakit.insight.diagnosis.delays import JobDelays, Repair, job_delays
from chakrakit.insight.diagnosis.job_culprits import job_culprits
from chakrakit.insight.diagnosis.job_rows import JobRows, is_job, job_rows
from chakrakit.insight.diagnosis.pace import RankPace, pace_of
from chakrakit.insight.diagnosis.slow_links import slow_links
from chakrakit.insight.diagnosis.slow_ranks import slow_ranks

__all__ = [
    "Culprit",
    "CulpritKind",
    "JobDelays",
    "JobRows",
    "RankPace",
    "Repair",
    "is_job",
    "job_culprits",
    "job_delays",
    "job_rows",
    "pace_of",
    "slow_links",
    "slow_ranks",
]
