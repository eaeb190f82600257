"""Two runs side by side: what differs and what explains it."""

from __future__ import annotations

from chakrakit.insight.compare.comparison import (
    Comparison,
    compare,
    compare_analyses,
    failures,
    parse_rule,
)
from chakrakit.insight.compare.pairing import Paired, RowChange, pair

__all__ = [
    "Comparison",
    "Paired",
    "RowChange",
    "compare",
    "compare_analyses",
    "failures",
    "pair",
    "parse_rule",
]
