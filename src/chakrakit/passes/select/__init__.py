"""Some ranks, steps or rows, with the order that the others gave them."""

from __future__ import annotations

from chakrakit.passes.select.compact import Compact
from chakrakit.passes.select.select import Select

__all__ = ["Compact", "Select"]
