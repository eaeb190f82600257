"""HLO modules as traces: loops unrolled, work counted, groups and peers bound to every device."""

from __future__ import annotations

from chakrakit.sources.xla.program.bound import Bound, traces_of
from chakrakit.sources.xla.program.rows import KINDS, Program, Row, program_of
from chakrakit.sources.xla.program.work import flops, moved

__all__ = ["KINDS", "Bound", "Program", "Row", "flops", "moved", "program_of", "traces_of"]
