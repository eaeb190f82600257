"""Algorithms of collectives as steps among members, and the choice among them."""

from __future__ import annotations

from chakrakit.simulator.collectives.algorithms import direct_all_to_all
from chakrakit.simulator.collectives.choice import (
    ALGORITHMS,
    COLLECTIVES,
    Algorithms,
    data_bytes,
    estimate,
    ideal_seconds,
    moved_bytes,
    possible,
)
from chakrakit.simulator.collectives.collective_steps import SWITCH, CollectiveSteps, TransferStep
from chakrakit.simulator.collectives.group_shape import GroupShape, grid_of, shapes
from chakrakit.simulator.collectives.pace import (
    LibraryCall,
    library_call,
    library_steps,
    own_pace,
    plain_cost,
)

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "SWITCH",
    "Algorithms",
    "CollectiveSteps",
    "GroupShape",
    "LibraryCall",
    "TransferStep",
    "data_bytes",
    "direct_all_to_all",
    "estimate",
    "grid_of",
    "ideal_seconds",
    "library_call",
    "library_steps",
    "moved_bytes",
    "own_pace",
    "plain_cost",
    "possible",
    "shapes",
]
