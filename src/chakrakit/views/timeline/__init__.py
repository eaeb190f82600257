"""A run's timeline for Perfetto and Chrome."""

from __future__ import annotations

from chakrakit.views.timeline.timeline import TimelineOptions
from chakrakit.views.timeline.timeline_file import write_timeline

__all__ = ["TimelineOptions", "write_timeline"]
