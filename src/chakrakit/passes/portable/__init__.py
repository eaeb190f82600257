"""Traces that any reader of plain dependencies gets right."""

from __future__ import annotations

from chakrakit.passes.portable.portable import Portable

__all__ = ["Portable"]
