"""Incomplete and slow recordings of communication: who hangs, who differs, who is late."""

from __future__ import annotations

from chakrakit.insight.hangs.board import Board, Signature
from chakrakit.insight.hangs.hangs import hang_culprits
from chakrakit.insight.hangs.recordings import board_of, is_recording

__all__ = ["Board", "Signature", "board_of", "hang_culprits", "is_recording"]
