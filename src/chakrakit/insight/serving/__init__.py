"""Served streams: where requests spend their time, and why another configuration is slower."""

from __future__ import annotations

from chakrakit.insight.serving.change import ServingChange, serving_change
from chakrakit.insight.serving.facts import (
    EngineFacts,
    Phase,
    RequestFacts,
    ServingFacts,
    serving_facts,
)
from chakrakit.insight.serving.rows import is_served

__all__ = [
    "EngineFacts",
    "Phase",
    "RequestFacts",
    "ServingChange",
    "ServingFacts",
    "is_served",
    "serving_change",
    "serving_facts",
]
