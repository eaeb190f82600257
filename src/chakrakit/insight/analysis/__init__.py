"""`analyze`: every question at once, each rank read once."""

from __future__ import annotations

from chakrakit.insight.analysis.analysis import (
    Analysis,
    AnalysisOptions,
    RowFindings,
    analyze,
    analyze_rows,
)
from chakrakit.insight.analysis.headlines import Answer, answers, ranks_text, size_text, time_text
from chakrakit.insight.analysis.servers import server_table

__all__ = [
    "Analysis",
    "AnalysisOptions",
    "Answer",
    "RowFindings",
    "analyze",
    "analyze_rows",
    "answers",
    "ranks_text",
    "server_table",
    "size_text",
    "time_text",
]
