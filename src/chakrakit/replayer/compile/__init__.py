"""From a recording to a plan: operators, tensors, streams and communication resolved."""

from __future__ import annotations

from chakrakit.replayer.compile.compile import compile_rank

__all__ = ["compile_rank"]
