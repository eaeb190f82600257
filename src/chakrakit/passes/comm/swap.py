"""Sets the algorithm of collectives; turns all-reduces into reduce-scatters and all-gathers, and back."""

from __future__ import annotations

from functools import partial

import numpy as np

from chakrakit.arrays import I64
from chakrakit.passes.comm.channels import BodyChannel
from chakrakit.passes.comm.job import TYPES, CommJob
from chakrakit.passes.comm.rewrite import Rewrite, add_up, data_kind, shard_of
from chakrakit.trace.model import CollectiveType

_SCATTERS = (CollectiveType.REDUCE_SCATTER, CollectiveType.REDUCE_SCATTER_BLOCK)
_LARGEST_ELEMENT = 16
"""Bytes of the largest element type (complex128): a shard is padded by less than one element."""


def set_algorithm(job: CommJob, name: str) -> None:
    """Makes calls ask for an algorithm by the simulator's name for it.

    `auto` leaves the choice to the simulator.
    """
    for body, rows in job.rows(tuple(t for t in TYPES if t != "message")).items():
        job.edit(body, partial(_with_algorithm, rows.tolist(), None if name == "auto" else name))


def _with_algorithm(rows: list[int], name: str | None, rewrite: Rewrite) -> None:
    rewrite.set("comm_algorithm", rows, name)


def split_all_reduce(job: CommJob) -> None:
    """Replaces each all-reduce by a reduce-scatter of the same input and an all-gather of its output."""
    for channel, calls in job.selected_calls(("all-reduce",)):
        ranks = job.members(channel)
        parts = np.ones(len(channel), np.int64)
        parts[calls] = 2
        seqs = job.renumber(channel, parts)
        for side in channel.sides:
            second = None if seqs is None else seqs[calls] + 1
            job.edit(
                side.body, partial(_split, side.rows[calls], channel.sizes[calls], ranks, second)
            )


def _split(rows: I64, sizes: I64, ranks: int, seqs: I64 | None, rewrite: Rewrite) -> None:
    body, reads = rewrite.body, data_kind(rewrite.body)
    for i, (row, size) in enumerate(zip(rows.tolist(), sizes.tolist(), strict=True)):
        shard = shard_of(body, row, size, ranks)
        gather = rewrite.copy(row, 1)
        half = int(body.duration_ns[row]) // 2
        for part, kind, bytes_in, bytes_out, time in (
            (row, CollectiveType.REDUCE_SCATTER, size, shard, half),
            (gather, CollectiveType.ALL_GATHER, shard, size, int(body.duration_ns[row]) - half),
        ):
            rewrite.set("comm_type", part, int(kind))
            rewrite.set("comm_size", part, bytes_in)
            rewrite.set("out_size", part, bytes_out)
            rewrite.set_duration(part, time)
            rewrite.set("comm_algorithm", part, None)  # it was one for an all-reduce
            rewrite.rename(part, f"{rewrite.name(row)}.{kind.name.lower().replace('_', '-')}")
        if seqs is not None:
            rewrite.set("comm_seq", gather, int(seqs[i]))
        rewrite.set("mem_alloc", gather, None)
        rewrite.set("mem_free", row, None)
        rewrite.edge(row, gather, reads)
        rewrite.end_with(row, gather)


def join_all_reduce(job: CommJob) -> None:
    """Joins a reduce-scatter and the all-gather that directly follows it into one all-reduce."""
    for channel, calls in job.selected_calls(("reduce-scatter", "all-gather")):
        pairs = _pairs(job, channel, calls)
        for side in channel.sides:
            job.edit(side.body, partial(_join, side.rows[pairs], channel.sizes[pairs[:, 0]]))


def _pairs(job: CommJob, channel: BodyChannel, calls: I64) -> I64:
    """Returns neighboring (reduce-scatter, all-gather) pairs whose second call waits for the first alone."""
    ranks, pairs = job.members(channel), []
    for a, b in zip(calls[:-1].tolist(), calls[1:].tolist(), strict=True):
        kinds = channel.types[a] in _SCATTERS and channel.types[b] == CollectiveType.ALL_GATHER
        filled = int(channel.sizes[b]) * ranks - int(channel.sizes[a])
        if kinds and 0 <= filled < ranks * _LARGEST_ELEMENT and _only_between(job, channel, a, b):
            pairs.append((a, b))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _only_between(job: CommJob, channel: BodyChannel, a: int, b: int) -> bool:
    """Whether on every side the second call depends on the first and on nothing else."""
    for side in channel.sides:
        edges = job.traces.body_at(side.body).edges
        sources = edges.src[edges.dst == side.rows[b]]
        if not len(sources) or (sources != side.rows[a]).any():
            return False
    return True


def _join(pairs: I64, sizes: I64, rewrite: Rewrite) -> None:
    body = rewrite.body
    for (scatter, gather), size in zip(pairs.tolist(), sizes.tolist(), strict=True):
        rewrite.set("comm_type", scatter, int(CollectiveType.ALL_REDUCE))
        rewrite.set("comm_size", scatter, size)
        rewrite.set("out_size", scatter, size)
        rewrite.set("comm_algorithm", scatter, None)
        rewrite.set_duration(scatter, int(body.duration_ns[scatter] + body.duration_ns[gather]))
        rewrite.rename(scatter, rewrite.name(scatter).removesuffix(".reduce-scatter"))
        add_up(rewrite, scatter, (scatter, gather), "mem_alloc", "mem_free")
        rewrite.absorb(gather, scatter)
