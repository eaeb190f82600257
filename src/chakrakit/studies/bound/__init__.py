"""What a plan needs at least: a time no simulation goes below, and its memory."""

from __future__ import annotations

from chakrakit.studies.bound.bound import Bounds

__all__ = ["Bounds"]
