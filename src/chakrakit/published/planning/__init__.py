"""Studies of parallel plans, schedules and placement."""

from __future__ import annotations

from chakrakit.published.planning.pipelines import NS, Pipeline, ReadyFirst, seconds

__all__ = ["NS", "Pipeline", "ReadyFirst", "seconds"]
