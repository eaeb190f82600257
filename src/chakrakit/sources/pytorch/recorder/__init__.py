"""The recorder that runs inside the program; it needs PyTorch and the standard library alone."""

from __future__ import annotations

from chakrakit.sources.pytorch.recorder import collector
from chakrakit.sources.pytorch.recorder.collector import GROUP_MARK

__all__ = ["GROUP_MARK", "collector"]
