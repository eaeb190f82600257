"""PyTorch: its execution-trace observer, its Kineto profiler, and a collector for both."""

from __future__ import annotations

from chakrakit.sources.pytorch import names
from chakrakit.sources.pytorch.attribution import layer_of
from chakrakit.sources.pytorch.collection import Collection, collect_command

__all__ = ["Collection", "collect_command", "layer_of", "names"]
