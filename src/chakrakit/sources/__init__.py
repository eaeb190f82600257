"""Where traces come from: profilers and frameworks that recorded a real run."""

from __future__ import annotations

from chakrakit.sources.inputs import link
from chakrakit.sources.jobtraces import is_job_trace, read_job_trace
from chakrakit.sources.opening import WORKLOAD_TOOLS, Raw, raw_at

__all__ = ["WORKLOAD_TOOLS", "Raw", "is_job_trace", "link", "raw_at", "read_job_trace"]
