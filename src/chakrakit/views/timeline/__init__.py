"""A run's timeline for Perfetto and Chrome."""

from __future__ import annotations

from chakrakit.views.timeline.timeline import TimelineOptions
from chakrakit.views.timeline.timeline_file import timeline_format, write_timeline

__all__ = ["TimelineOptions", "timeline_format", "write_timeline"]
