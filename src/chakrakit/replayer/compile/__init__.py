"""From a recording to a plan: operators, tensors, streams and communication resolved."""

from __future__ import annotations

from chakrakit.replayer.compile.compile import compile_rank
from chakrakit.replayer.compile.exchanged import Exchanged, PlanPlace, exchanged_of

__all__ = ["Exchanged", "PlanPlace", "compile_rank", "exchanged_of"]
