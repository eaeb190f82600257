"""`generate`: from a workload to a TraceSet, and what it amounts to."""

from __future__ import annotations

from chakrakit.workloads.generate.figures import dry_run, refuse_over_capacity
from chakrakit.workloads.generate.generator import generate, generated
from chakrakit.workloads.generate.model_list import listing

__all__ = ["dry_run", "generate", "generated", "listing", "refuse_over_capacity"]
