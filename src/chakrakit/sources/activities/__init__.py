"""Events of any tracer as the columns that are linked."""

from chakrakit.sources.activities.columns import Activities

__all__ = ["Activities"]
