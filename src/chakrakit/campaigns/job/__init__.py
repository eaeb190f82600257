"""A job file: what it may say, checked line by line, as a Job that can be run."""

from __future__ import annotations

from chakrakit.campaigns.job.job_text import CostsText
from chakrakit.campaigns.job.read_job import Job, read_job

__all__ = ["CostsText", "Job", "read_job"]
