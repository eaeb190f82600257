"""The same work faster, slower, on another device or in another precision."""

from __future__ import annotations

from chakrakit.passes.recost.edit import Edit
from chakrakit.passes.recost.recost import Recost

__all__ = ["Edit", "Recost"]
