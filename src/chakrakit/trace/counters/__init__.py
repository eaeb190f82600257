"""Figures over time, per link and per collective, that a Run carries beside its times."""

from __future__ import annotations

from chakrakit.trace.counters.counters import Counters, Series
from chakrakit.trace.counters.schemas import SCHEMAS, Column, CounterSchema

__all__ = ["SCHEMAS", "Column", "CounterSchema", "Counters", "Series"]
