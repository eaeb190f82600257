"""Questions about traces: SQL with DuckDB, and what a trace holds at a glance."""

from __future__ import annotations

from chakrakit.trace.query.description import Info, describe, describe_traces
from chakrakit.trace.query.sql import query, query_table, rows_of

__all__ = ["Info", "describe", "describe_traces", "query", "query_table", "rows_of"]
