"""Compiled programs: the operators of a compiled call as the kernels that a compiler makes of them."""

from __future__ import annotations

from chakrakit.sources.capture.compiled.fused import fused

__all__ = ["fused"]
