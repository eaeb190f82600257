"""Stand-ins for hardware, peers and values while a script is captured. Needs torch."""

from __future__ import annotations

from chakrakit.sources.capture.standins import (
    autocast,
    batch_norm,
    context_parallel,
    cuda,
    data_parallel,
    packed,
    pipelining,
    program,
    recurrent,
    sharding,
    surroundings,
    target,
    transformers,
    unnoticed,
)
from chakrakit.sources.capture.standins.cuda import Cuda, Redirect
from chakrakit.sources.capture.standins.distributed import Distributed, Mail
from chakrakit.sources.capture.standins.values import Values

__all__ = [
    "Cuda",
    "Distributed",
    "Mail",
    "Redirect",
    "Values",
    "autocast",
    "batch_norm",
    "context_parallel",
    "cuda",
    "data_parallel",
    "packed",
    "pipelining",
    "program",
    "recurrent",
    "sharding",
    "surroundings",
    "target",
    "transformers",
    "unnoticed",
]
