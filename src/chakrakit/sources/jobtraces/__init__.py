"""Training jobs recorded as one table: one row per operation of every worker and step.

The format is that of ByteDance's StragglerAnalysis (arXiv 2505.05713): compute, pipeline messages,
collectives and optimizer of sampled steps, without kernels.
"""

from __future__ import annotations

from chakrakit.sources.jobtraces.job_run import read_job_trace
from chakrakit.sources.jobtraces.operations import is_job_trace

__all__ = ["is_job_trace", "read_job_trace"]
