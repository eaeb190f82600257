"""More or fewer replicas of a model along one axis of the ranks."""

from __future__ import annotations

from chakrakit.passes.scale.scale_ranks import ScaleRanks

__all__ = ["ScaleRanks"]
