"""Changes to communication: one file per action, on channels of calls that meet across ranks."""

from __future__ import annotations

from chakrakit.passes.comm.comm import Comm

__all__ = ["Comm"]
