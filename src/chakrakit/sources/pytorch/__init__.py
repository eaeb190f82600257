"""PyTorch: its execution-trace observer, its Kineto profiler, and a collector for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names
from chakrakit.sources.pytorch import names
from chakrakit.sources.pytorch.attribution import Batch, BatchShare, batch_name, layer_of

if TYPE_CHECKING:
    from chakrakit.sources.pytorch.collection import Collection, collect_command
    from chakrakit.sources.pytorch.recorder import FollowedCalls

__getattr__ = late_names(
    __name__,
    {"Collection": "collection", "FollowedCalls": "recorder", "collect_command": "collection"},
)

__all__ = [
    "Batch",
    "BatchShare",
    "Collection",
    "FollowedCalls",
    "batch_name",
    "collect_command",
    "layer_of",
    "names",
]
