"""Custom collective algorithms: traces, MSCCL XML, MSCCL++ execution plans.

What makes steps of them is imported when first used: most simulations have no algorithm of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names
from chakrakit.simulator.custom.algorithm_files import (
    OwnAlgorithms,
    read_algorithm,
    split_algorithms,
)

if TYPE_CHECKING:
    from chakrakit.simulator.custom.schedules import (
        custom_for,
        messages_of_traces,
        moves_from_msccl,
        moves_from_mscclpp,
        moves_from_traces,
    )

__all__ = [
    "OwnAlgorithms",
    "custom_for",
    "messages_of_traces",
    "moves_from_msccl",
    "moves_from_mscclpp",
    "moves_from_traces",
    "read_algorithm",
    "split_algorithms",
]

_OF_SCHEDULES = (
    "custom_for",
    "messages_of_traces",
    "moves_from_msccl",
    "moves_from_mscclpp",
    "moves_from_traces",
)
__getattr__ = late_names(__name__, dict.fromkeys(_OF_SCHEDULES, "schedules"))
