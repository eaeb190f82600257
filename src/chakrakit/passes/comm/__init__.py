"""The pass `comm`: changes to communication, one file per action, applied to calls that meet across ranks."""

from __future__ import annotations

from chakrakit.passes.comm.comm import Comm

__all__ = ["Comm"]
