"""Figures over time, per link and per collective, that a Run carries beside its times."""

from __future__ import annotations

from chakrakit.trace.counters.counters import Counters, Series
from chakrakit.trace.counters.history import as_recorded, history_of
from chakrakit.trace.counters.schemas import SCHEMAS, Column, CounterSchema
from chakrakit.trace.counters.storage import ServerUse, servers_of, storage_table

__all__ = [
    "SCHEMAS",
    "Column",
    "CounterSchema",
    "Counters",
    "Series",
    "ServerUse",
    "as_recorded",
    "history_of",
    "servers_of",
    "storage_table",
]
