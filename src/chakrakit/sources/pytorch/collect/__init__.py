"""Record and link in one go."""

from __future__ import annotations

from chakrakit.sources.pytorch.collect.collection import collect, collect_command

__all__ = ["collect", "collect_command"]
