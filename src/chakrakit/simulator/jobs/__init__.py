"""Several jobs on one machine: where each runs, all at once, and each against running alone."""

from __future__ import annotations

from chakrakit.simulator.jobs.jobs_simulation import (
    JobsSimulation,
    JobsSummary,
    JobSummary,
    MeetingJobs,
    simulate_jobs,
)
from chakrakit.simulator.jobs.joined_jobs import JoinedJobs, join_jobs
from chakrakit.simulator.jobs.placement import place_jobs, read_job_placement

__all__ = [
    "JobSummary",
    "JobsSimulation",
    "JobsSummary",
    "JoinedJobs",
    "MeetingJobs",
    "join_jobs",
    "place_jobs",
    "read_job_placement",
    "simulate_jobs",
]
