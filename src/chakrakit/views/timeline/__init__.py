"""A run's timeline for Perfetto and Chrome."""

from __future__ import annotations

from chakrakit.views.timeline.timeline import Options
from chakrakit.views.timeline.timeline_file import write_timeline

__all__ = ["Options", "write_timeline"]
