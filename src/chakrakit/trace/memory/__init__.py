"""What a rank's device memory holds and when: one account for every room that needs it."""

from __future__ import annotations

from chakrakit.trace.memory.allocations import (
    KINDS,
    Allocations,
    Holder,
    MemoryFit,
    fit_fields,
    fit_of,
    shortage_line,
)
from chakrakit.trace.memory.model_state import (
    StatePart,
    model_state,
    reshard_state,
    state_attribute,
    with_model_state,
)
from chakrakit.trace.memory.sources import HELD_KIND, allocations_of

__all__ = [
    "HELD_KIND",
    "KINDS",
    "Allocations",
    "Holder",
    "MemoryFit",
    "StatePart",
    "allocations_of",
    "fit_fields",
    "fit_of",
    "model_state",
    "reshard_state",
    "shortage_line",
    "state_attribute",
    "with_model_state",
]
