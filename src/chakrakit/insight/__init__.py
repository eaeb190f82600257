"""What happened in a Run and why: facts as small typed results. Nothing here draws."""

from __future__ import annotations

from chakrakit.insight.advice import Advice, advice_table, advise
from chakrakit.insight.analysis import (
    Analysis,
    AnalysisOptions,
    RowFindings,
    analyze,
    analyze_rows,
    network_tables,
    server_table,
    tier_table,
)
from chakrakit.insight.breakdown import Breakdown, RankTime
from chakrakit.insight.comparison import (
    Comparison,
    Paired,
    RowChange,
    compare,
    compare_analyses,
    failures,
    pair,
    parse_rule,
)
from chakrakit.insight.headlines import (
    Answer,
    answers,
    interval_text,
    named_ranks,
    ranks_text,
    saving_text,
    size_text,
    time_text,
)
from chakrakit.insight.served_requests import (
    EngineFacts,
    RequestFacts,
    ServingChange,
    ServingFacts,
    is_served,
)
from chakrakit.insight.step_times import steps

__all__ = [
    "Advice",
    "Analysis",
    "AnalysisOptions",
    "Answer",
    "Breakdown",
    "Comparison",
    "EngineFacts",
    "Paired",
    "RankTime",
    "RequestFacts",
    "RowChange",
    "RowFindings",
    "ServingChange",
    "ServingFacts",
    "advice_table",
    "advise",
    "analyze",
    "analyze_rows",
    "answers",
    "compare",
    "compare_analyses",
    "failures",
    "interval_text",
    "is_served",
    "named_ranks",
    "network_tables",
    "pair",
    "parse_rule",
    "ranks_text",
    "saving_text",
    "server_table",
    "size_text",
    "steps",
    "tier_table",
    "time_text",
]
