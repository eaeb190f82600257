"""Stand-ins for hardware, peers and values while a script is captured. Needs torch."""

from __future__ import annotations

from chakrakit.sources.capture.standins import (
    autocast,
    batch_norm,
    compiler,
    context_parallel,
    cuda,
    data_parallel,
    nvml,
    offloading,
    packed,
    pipelining,
    program,
    recurrent,
    saved_files,
    sharding,
    surroundings,
    target,
    transformers,
    unnoticed,
)
from chakrakit.sources.capture.standins.cuda import Cuda, Redirect
from chakrakit.sources.capture.standins.distributed import Distributed, Mail
from chakrakit.sources.capture.standins.values import Placeholder, ValueReaders, WholePlaceholder

__all__ = [
    "Cuda",
    "Distributed",
    "Mail",
    "Placeholder",
    "Redirect",
    "ValueReaders",
    "WholePlaceholder",
    "autocast",
    "batch_norm",
    "compiler",
    "context_parallel",
    "cuda",
    "data_parallel",
    "nvml",
    "offloading",
    "packed",
    "pipelining",
    "program",
    "recurrent",
    "saved_files",
    "sharding",
    "surroundings",
    "target",
    "transformers",
    "unnoticed",
]
