"""What a row of a recording works on: FLOPs, bytes, step, phase and module."""

from __future__ import annotations

from chakrakit.sources.pytorch.work.attribution import PHASES, Attribution, attribute
from chakrakit.sources.pytorch.work.flops import moves_bytes
from chakrakit.sources.pytorch.work.work import innermost, work_of_rows

__all__ = ["PHASES", "Attribution", "attribute", "innermost", "moves_bytes", "work_of_rows"]
