"""Communication by the host itself, such as gloo's: what of its record is the transfer.

A back end that moves tensors of a device through the host records one range around everything: the
copy to the host, the transfer, the copy back. The copies are rows of their own, with calls of the
device's runtime inside. What is left between them is the transfer, and only that depends on other
ranks and on the network.
"""

from __future__ import annotations

import re

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.read import Kind, Kineto

_BACK_END = re.compile(r"^(gloo|mpi|ucc):\w+")


def transfer_times(kineto: Kineto) -> tuple[I64, I64]:
    """Start and end of all events, of a back end's records those of the longest gap inside them."""
    start, end = kineto.start, kineto.end
    records = np.flatnonzero(kineto.is_host & kineto.texts.where(_BACK_END.match)[kineto.name])
    if not len(records):
        return start, end
    start, end = start.copy(), end.copy()
    for record in records.tolist():
        start[record], end[record] = _longest_gap(kineto, record)
    return start, end


def _longest_gap(kineto: Kineto, record: int) -> tuple[int, int]:
    first, last = int(kineto.start[record]), int(kineto.end[record])
    near = kineto.is_host & (kineto.tid == kineto.tid[record]) & (kineto.pid == kineto.pid[record])
    inside = np.flatnonzero(near & (kineto.start >= first) & (kineto.end <= last))
    inside = inside[inside != record]
    if not (kineto.kind[inside] == Kind.CALL).any():
        return first, last  # tensors of the host; what else is inside has nothing to do with it
    inside = inside[np.argsort(kineto.start[inside], kind="stable")]
    done = np.maximum.accumulate(kineto.end[inside])
    begins = np.r_[first, done]
    ends = np.r_[kineto.start[inside], last]
    widest = int(np.argmax(ends - begins))
    return int(begins[widest]), int(max(ends[widest], begins[widest]))
