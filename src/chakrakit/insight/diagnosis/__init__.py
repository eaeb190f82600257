"""Fail-slow, stragglers and hangs: who is to blame, since when, and by how much."""

from __future__ import annotations

from chakrakit.insight.diagnosis.clock import ClockCheck
from chakrakit.insight.diagnosis.culprit import Culprit, CulpritKind, RankPace, pace_of
from chakrakit.insight.diagnosis.expected import ExpectedTime, MachineCheck, check_of, recorded_logs
from chakrakit.insight.diagnosis.hang_recordings import board_of, is_recording
from chakrakit.insight.diagnosis.hangs import hang_culprits
from chakrakit.insight.diagnosis.jobs import (
    JobDelays,
    JobRows,
    SuspectRepair,
    is_job,
    job_culprits,
    job_delays,
    job_rows,
)
from chakrakit.insight.diagnosis.slow_parts import slow_links, slow_ranks

__all__ = [
    "ClockCheck",
    "Culprit",
    "CulpritKind",
    "ExpectedTime",
    "JobDelays",
    "JobRows",
    "MachineCheck",
    "RankPace",
    "SuspectRepair",
    "board_of",
    "check_of",
    "hang_culprits",
    "is_job",
    "is_recording",
    "job_culprits",
    "job_delays",
    "job_rows",
    "pace_of",
    "recorded_logs",
    "slow_links",
    "slow_ranks",
]
