"""What a row of a recording works on: FLOPs, bytes, step, phase and module."""

from __future__ import annotations

from chakrakit.sources.pytorch.work.attribution import PHASES, Attribution, attribute, layer_of
from chakrakit.sources.pytorch.work.batches import Batch, Share, batch_of, read_batch
from chakrakit.sources.pytorch.work.work import innermost, touches_memory, work_of_rows

__all__ = [
    "PHASES",
    "Attribution",
    "Batch",
    "Share",
    "attribute",
    "batch_of",
    "innermost",
    "layer_of",
    "read_batch",
    "touches_memory",
    "work_of_rows",
]
