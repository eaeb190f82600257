"""Directives: a strategy as passes on one global trace of a training step, which they turn into ranks."""

from __future__ import annotations

from chakrakit.passes.directives.order import Order
from chakrakit.passes.directives.place import Place
from chakrakit.passes.directives.replicate import Replicate
from chakrakit.passes.directives.shard import Shard
from chakrakit.passes.directives.split import SplitBatch
from chakrakit.passes.directives.stream import Stream

__all__ = ["Order", "Place", "Replicate", "Shard", "SplitBatch", "Stream"]
