"""Where traces come from: profilers and frameworks that recorded a real run.

Names are imported when first used, so that reading a trace does not load every reader of recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.sources.inputs import link
    from chakrakit.sources.jobtraces import is_job_trace, read_job_trace
    from chakrakit.sources.opening import WORKLOAD_TOOLS, Raw, raw_at

__all__ = ["WORKLOAD_TOOLS", "Raw", "is_job_trace", "link", "raw_at", "read_job_trace"]

__getattr__ = late_names(
    __name__,
    {
        "WORKLOAD_TOOLS": "opening",
        "Raw": "opening",
        "is_job_trace": "jobtraces",
        "link": "inputs",
        "raw_at": "opening",
        "read_job_trace": "jobtraces",
    },
)
