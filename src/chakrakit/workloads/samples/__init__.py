"""Samples of many lengths: where they come from, batchers, and who gets which micro-batch."""

from __future__ import annotations

from chakrakit.workloads.samples.batchers import Batcher, Limits, MicroBatch
from chakrakit.workloads.samples.dealing import Deal, deal, tokens_of_unit
from chakrakit.workloads.samples.lengths import document_lengths, has_documents, packed_documents
from chakrakit.workloads.samples.sample import Sample, read_samples, sample_stream

__all__ = [
    "Batcher",
    "Deal",
    "Limits",
    "MicroBatch",
    "Sample",
    "deal",
    "document_lengths",
    "has_documents",
    "packed_documents",
    "read_samples",
    "sample_stream",
    "tokens_of_unit",
]
