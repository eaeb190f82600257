"""Recordings of every kind: which one a file is, and how they become a Run."""

from __future__ import annotations

from chakrakit.sources.inputs.identify import Format
from chakrakit.sources.inputs.linking import link

__all__ = ["Format", "link"]
