"""A trace on real hardware: compiled into a plan that a small runner executes with PyTorch alone."""

from __future__ import annotations

from chakrakit.replayer.options import ReplayOptions
from chakrakit.replayer.result import RankResult, ReplayReport
from chakrakit.replayer.session import export, replay

__all__ = ["RankResult", "ReplayOptions", "ReplayReport", "export", "replay"]
