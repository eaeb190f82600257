"""`replay`: plans exported, run and read back."""

from __future__ import annotations

from chakrakit.replayer.run.result import RankResult, ReplayReport
from chakrakit.replayer.run.session import export, replay

__all__ = ["RankResult", "ReplayReport", "export", "replay"]
