"""Questions about traces: SQL with DuckDB, and what a trace holds at a glance."""

from __future__ import annotations

from chakrakit.trace.query.description import Info, describe
from chakrakit.trace.query.sql import query, rows_of

__all__ = ["Info", "describe", "query", "rows_of"]
