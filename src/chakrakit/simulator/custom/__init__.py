"""Custom collective algorithms: traces, MSCCL XML, MSCCL++ execution plans."""

from __future__ import annotations

from chakrakit.simulator.custom.algorithm_files import (
    OwnAlgorithms,
    read_algorithm,
    split_algorithms,
)
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
