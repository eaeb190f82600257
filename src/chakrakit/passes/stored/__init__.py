"""Data loading and checkpoints as nodes of a trace."""

from __future__ import annotations

from chakrakit.passes.stored.storage import Storage

__all__ = ["Storage"]
