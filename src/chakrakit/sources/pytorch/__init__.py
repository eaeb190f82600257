"""PyTorch: its execution-trace observer, its Kineto profiler, and a collector for both."""

from __future__ import annotations

from chakrakit.sources.pytorch import names
from chakrakit.sources.pytorch.attribution import layer_of
from chakrakit.sources.pytorch.collection import Collection, collect_command
from chakrakit.sources.pytorch.recorder import FollowedCalls

__all__ = ["Collection", "FollowedCalls", "collect_command", "layer_of", "names"]
