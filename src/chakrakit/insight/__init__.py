"""What happened in a Run and why: facts as small typed results. Nothing here draws.

Names are imported when first used, so that the tables of a simulation do not load a whole analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.insight.advice import UNTRIED, Advice, advice_table, advise
    from chakrakit.insight.analysis import (
        Analysis,
        AnalysisOptions,
        RowFindings,
        analyze,
        analyze_rows,
    )
    from chakrakit.insight.breakdown import Breakdown, RankTime
    from chakrakit.insight.call_tree import CallTreeNode, call_tree
    from chakrakit.insight.comparison import (
        Comparison,
        Paired,
        RowChange,
        compare,
        compare_analyses,
        doubts,
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
    )
    from chakrakit.insight.link_use import LinksUse, LinkUse, links_use
    from chakrakit.insight.resource_tables import network_tables, server_table, tier_table
    from chakrakit.insight.served_requests import (
        EngineFacts,
        RequestFacts,
        ServingChange,
        ServingFacts,
        is_served,
    )
    from chakrakit.insight.step_times import steps

_HOME = {
    "UNTRIED": "advice",
    "Advice": "advice",
    "Analysis": "analysis",
    "AnalysisOptions": "analysis",
    "Answer": "headlines",
    "Breakdown": "breakdown",
    "CallTreeNode": "call_tree",
    "Comparison": "comparison",
    "EngineFacts": "served_requests",
    "LinkUse": "link_use",
    "LinksUse": "link_use",
    "Paired": "comparison",
    "call_tree": "call_tree",
    "links_use": "link_use",
    "RankTime": "breakdown",
    "RequestFacts": "served_requests",
    "RowChange": "comparison",
    "RowFindings": "analysis",
    "ServingChange": "served_requests",
    "ServingFacts": "served_requests",
    "advice_table": "advice",
    "advise": "advice",
    "analyze": "analysis",
    "analyze_rows": "analysis",
    "answers": "headlines",
    "compare": "comparison",
    "compare_analyses": "comparison",
    "doubts": "comparison",
    "failures": "comparison",
    "interval_text": "headlines",
    "is_served": "served_requests",
    "named_ranks": "headlines",
    "network_tables": "resource_tables",
    "pair": "comparison",
    "parse_rule": "comparison",
    "ranks_text": "headlines",
    "saving_text": "headlines",
    "server_table": "resource_tables",
    "steps": "step_times",
    "tier_table": "resource_tables",
}

__all__ = [
    "UNTRIED",
    "Advice",
    "Analysis",
    "AnalysisOptions",
    "Answer",
    "Breakdown",
    "CallTreeNode",
    "Comparison",
    "EngineFacts",
    "LinkUse",
    "LinksUse",
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
    "call_tree",
    "compare",
    "compare_analyses",
    "doubts",
    "failures",
    "interval_text",
    "is_served",
    "links_use",
    "named_ranks",
    "network_tables",
    "pair",
    "parse_rule",
    "ranks_text",
    "saving_text",
    "server_table",
    "steps",
    "tier_table",
]

__getattr__ = late_names(__name__, _HOME)
