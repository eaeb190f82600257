"""Workload → TraceSet: one body for each distinct program, every rank bound to its own."""

from __future__ import annotations

from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate.programs import Generated
from chakrakit.workloads.generate.serving import InferencePrograms
from chakrakit.workloads.samples import Batcher


def generated(workload: Workload, batcher: Batcher | None = None) -> Generated:
    """The programs of a workload, with a batcher of the user's; a ConfigError says why it cannot be."""
    if workload.step.in_micro_batches:
        return Generated(workload, batcher)
    return InferencePrograms(workload)


def generate(workload: Workload) -> TraceSet:
    """The traces of a workload on all its ranks."""
    return generated(workload).traces()
