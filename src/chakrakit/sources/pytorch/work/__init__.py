"""What a row of a recording works on: FLOPs, bytes, step, phase and module."""

from __future__ import annotations

from chakrakit.sources.pytorch.work.attribution import PHASES, Attribution, attribute, layer_of
from chakrakit.sources.pytorch.work.batches import Batch, Share, batch_of, read_batch
from chakrakit.sources.pytorch.work.flops import Call, flops, is_contraction, moves_bytes
from chakrakit.sources.pytorch.work.work import innermost, work_of_rows

__all__ = [
    "PHASES",
    "Attribution",
    "Batch",
    "Call",
    "Share",
    "attribute",
    "batch_of",
    "flops",
    "innermost",
    "is_contraction",
    "layer_of",
    "moves_bytes",
    "read_batch",
    "work_of_rows",
]
