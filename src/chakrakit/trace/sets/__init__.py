"""Sets of traces and what ran of them: TraceSet, Run and their card."""

from __future__ import annotations

from chakrakit.trace.sets.card import (
    CAMPAIGN,
    CAPTURED,
    CPU,
    FILLED,
    GENERATED,
    LIKE_COMMUNICATION,
    LINKED,
    RECORDED_DEVICE,
    Card,
    Footprint,
    RecordedStep,
    footprint_of,
    read_card,
    recorded_step_of,
    write_card,
)
from chakrakit.trace.sets.counters import (
    SCHEMAS,
    Counters,
    CounterSeries,
    ServerUse,
    as_recorded,
    history_of,
    servers_of,
    storage_table,
)
from chakrakit.trace.sets.run import (
    PS_PER_NS,
    Run,
    Times,
    check_length,
    named_rank,
    run_of,
    whole_ns,
)
from chakrakit.trace.sets.run_facts import (
    DEVICE_TIER,
    LinkClassSummary,
    PortSummary,
    RunFacts,
    TierUse,
)
from chakrakit.trace.sets.subject import subject_of
from chakrakit.trace.sets.traceset import TraceSet

__all__ = [
    "CAMPAIGN",
    "CAPTURED",
    "CPU",
    "DEVICE_TIER",
    "FILLED",
    "GENERATED",
    "LIKE_COMMUNICATION",
    "LINKED",
    "PS_PER_NS",
    "RECORDED_DEVICE",
    "SCHEMAS",
    "Card",
    "CounterSeries",
    "Counters",
    "Footprint",
    "LinkClassSummary",
    "PortSummary",
    "RecordedStep",
    "Run",
    "RunFacts",
    "ServerUse",
    "TierUse",
    "Times",
    "TraceSet",
    "as_recorded",
    "check_length",
    "footprint_of",
    "history_of",
    "named_rank",
    "read_card",
    "recorded_step_of",
    "run_of",
    "servers_of",
    "storage_table",
    "subject_of",
    "whole_ns",
    "write_card",
]
