"""Streams and events as the framework would use them on a GPU, from the role of each operator.

Compute runs on one stream. A process group's collectives run on a stream of their own and begin when the
compute issued before them is done; compute goes on when somebody waits. FSDP gathers parameters on streams
of their own: copying in begins when the parameters gathered before have been copied out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.capture.recording import Recording
from chakrakit.sources.pytorch.communication import names as words
from chakrakit.trace.model import CollectiveType

COMPUTE, COPY_IN = 0, 1
_FIRST = 2
_COPY_IN, _COPY_OUT = "fsdp::all_gather_copy_in", "fsdp::split_with_sizes_copy"


@dataclass(eq=False)
class Streams:
    """`stream` by operator, -1 for what runs on the host; `events` are pairs of operators in order."""

    stream: I64
    events: list[tuple[int, int]] = field(default_factory=list)


def streams_of(recording: Recording) -> Streams:
    """A stream for every operator, and who waits for whom besides data and order on a stream."""
    out = Streams(np.full(len(recording.ops), -1, np.int64))
    lanes: dict[tuple[str, int, int], int] = {}
    names = [s.name for s in recording.signatures]
    last_compute = last_out = -1
    for i, op in enumerate(recording.ops):
        name = names[op.signature]
        if op.comm >= 0:
            comm = recording.comms[op.comm]
            gathers = comm.kind == CollectiveType.ALL_GATHER and name.startswith("c10d::_allgather")
            message = comm.kind in (words.SEND, words.RECV)
            key = (
                comm.group,
                comm.kind if message else -int(gathers),
                comm.peer if message else -1,
            )
            out.stream[i] = lanes.setdefault(key, _FIRST + len(lanes))
            if last_compute >= 0 and not _is_fsdp(recording, i, names):
                out.events.append((last_compute, i))
        elif name == _COPY_IN:
            out.stream[i] = COPY_IN
            if last_out >= 0:
                out.events.append((last_out, i))
        elif not _on_host(recording, op.signature, op.is_host, op.waits_for):
            out.stream[i] = COMPUTE
            last_compute = i
            if name == _COPY_OUT:
                last_out = i
        if op.waits_for >= 0:
            out.events.append((op.waits_for, i))
    return out


def _is_fsdp(recording: Recording, i: int, names: list[str]) -> bool:
    """Whether a gather takes what was copied in for it just before."""
    return any(names[op.signature] == _COPY_IN for op in recording.ops[max(i - 3, 0) : i])


def _on_host(recording: Recording, signature: int, is_host: bool, waits_for: int) -> bool:
    return waits_for < 0 and (is_host or recording.signatures[signature].is_host)
