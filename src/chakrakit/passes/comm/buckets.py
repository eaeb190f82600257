"""Changes the size of messages: fuses small calls, cuts large ones, puts gradients into new buckets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes.comm.channels import BodyChannel
from chakrakit.passes.comm.job import CommJob
from chakrakit.passes.comm.meeting import Meeting
from chakrakit.passes.comm.rewrite import Rewrite, add_up, cut, element_size, order_kind
from chakrakit.trace.placement import on_host

CUTTABLE = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "message")
"""Types of communication that can be cut and fused without knowing which rank gets which part."""
_GRADIENTS = ("all-reduce", "reduce-scatter")
_GRADIENT_PHASES = ("sync", "weight")


def fuse(job: CommJob, size: float) -> None:
    """Fuses neighboring calls of one kind, up to `size` bytes, where no other work must come between."""
    _fuse(job, list(job.selected_calls(CUTTABLE)), size)


def split(job: CommJob, size: float, parts: int) -> None:
    """Cuts calls of more than `size` bytes evenly, or all calls into `parts` pieces."""
    for channel, calls in job.selected_calls(CUTTABLE):
        _split(job, channel, calls, size, parts)


def bucket(job: CommJob, size: float) -> None:
    """Puts gradients into buckets of up to `size` bytes: small ones are fused, larger ones cut.

    A bucket starts when the last of what is in it is ready, as it did before; whoever waited for one of
    its gradients waits for the whole bucket.
    """
    calls_of_channels = list(job.selected_calls(_GRADIENTS, _phases(job)))
    fused = _fuse(job, calls_of_channels, size)
    for (channel, indices), together in zip(calls_of_channels, fused, strict=True):
        _split(job, channel, np.setdiff1d(indices, together), size)


def _phases(job: CommJob) -> tuple[str, ...]:
    """Returns the phases that reduce gradients, or all but the forward pass where traces do not say."""
    if any(True for _ in job.selected_calls(_GRADIENTS, _GRADIENT_PHASES)):
        return _GRADIENT_PHASES
    return ("", "backward", "optimizer", "other", *_GRADIENT_PHASES)


# --- fusing -------------------------------------------------------------------------------------


def _fuse(
    job: CommJob, calls_of_channels: Sequence[tuple[BodyChannel, I64]], limit: float
) -> list[I64]:
    """Notes what to fuse; returns for each channel the calls that are in a bucket with others."""
    meeting = Meeting(job.traces, job.channels)
    if calls_of_channels and meeting.has_circle():
        raise TraceError(
            "work waits for itself in these traces, on one rank or across ranks, so it cannot be "
            "told what may be fused; chakra validate shows circles within a rank"
        )
    fused = []
    for channel, indices in calls_of_channels:
        buckets = [b for b in _buckets(job, channel, indices, limit, meeting) if len(b) > 1]
        meeting.fuse(channel, buckets)
        for side in channel.sides:
            job.edit(side.body, partial(_fused, [side.rows[b] for b in buckets]))
        fused.append(np.concatenate([np.zeros(0, np.int64), *buckets]))
    return fused


def _buckets(
    job: CommJob, channel: BodyChannel, indices: I64, limit: float, meeting: Meeting
) -> list[I64]:
    """Groups neighboring calls.

    A group ends before it exceeds the limit or where other work must come between.
    """
    last_awaited = meeting.held_back(channel, indices)
    kinds = _kinds(job, channel, indices)
    runs: list[list[int]] = []
    total = 0
    for at, index in enumerate(indices.tolist()):
        size = int(channel.sizes[index])
        run = runs[-1] if runs else []
        first = at - len(run)
        fits = bool(run) and total + size <= limit and kinds[at] == kinds[at - 1]
        # Not after a call that waits for a later one, or for a member of the run.
        if fits and last_awaited[at] <= first and last_awaited[at - 1] < at:
            run.append(index)
            total += size
        else:
            runs.append([index])
            total = size
    return [np.array(run, np.int64) for run in runs]


def _kinds(job: CommJob, channel: BodyChannel, indices: I64) -> list[tuple[object, ...]]:
    """Returns what calls must have in common to be fused: types, algorithm and ends, on every side."""
    columns: list[Sequence[object]] = [channel.types[indices].tolist()]
    for side in channel.sides:
        for name, default in (
            ("comm_dtype", ""),
            ("comm_algorithm", ""),
            ("comm_src", -1),
            ("comm_dst", -1),
        ):
            columns.append(job.column(side, name, default)[indices].tolist())
    return list(zip(*columns, strict=True))


def _fused(buckets: Sequence[I64], rewrite: Rewrite) -> None:
    """Makes the last call of each bucket carry all of it, since it is issued when everything is ready."""
    body = rewrite.body
    for rows in (b.tolist() for b in buckets):
        last = rows[-1]
        rewrite.set_duration(last, int(body.duration_ns[rows].sum()))
        rewrite.rename(last, f"{rewrite.name(last)} [+{len(rows) - 1}]")
        add_up(rewrite, last, rows, "comm_size", "out_size", "mem_alloc", "mem_free")
        for row in rows[:-1]:
            rewrite.absorb(row, last)


_MOST_PIECES = 1_000_000
"""The most pieces that one group's calls may become: each is a node in every body that takes part."""


# --- cutting ------------------------------------------------------------------------------------


def _split(job: CommJob, channel: BodyChannel, calls: I64, size: float, parts: int = 0) -> None:
    """Notes into how many pieces each call is cut: at most as many as it has elements."""
    piece_counts = parts or np.ceil(channel.sizes[calls] / size).astype(np.int64)
    body, rows = job.traces.body_at(channel.sides[0].body), channel.sides[0].rows[calls]
    element_bytes = np.array([element_size(body, row) for row in rows.tolist()], np.int64)
    counts = np.ones(len(channel), np.int64)
    counts[calls] = np.minimum(piece_counts, np.maximum(1, channel.sizes[calls] // element_bytes))
    large = np.flatnonzero(counts > 1)
    if not len(large):
        return
    if counts.sum() > _MOST_PIECES:
        raise ConfigError(
            f"comm: {len(large):,} calls of one group would become {int(counts[large].sum()):,} pieces; "
            f"{_MOST_PIECES:,} is the most: give fewer parts, or a larger size"
        )
    seqs = job.renumber(channel, counts)
    for side in channel.sides:
        first = None if seqs is None else seqs[large]
        job.edit(side.body, partial(_cut, side.rows[large], counts[large], first))


def _cut(rows: I64, counts: I64, seqs: I64 | None, rewrite: Rewrite) -> None:
    body, host = rewrite.body, on_host(rewrite.body)
    turn = {side: order_kind(body, side) for side in (False, True)}
    for i, (row, count) in enumerate(zip(rows.tolist(), counts.tolist(), strict=True)):
        parts = [row, *(rewrite.copy(row, j) for j in range(1, count))]
        each = element_size(body, row)
        for column in ("comm_size", "out_size"):
            if (size := rewrite.number(column, row)) is not None:
                rewrite.set(column, parts, cut(size, count, each))
        for part, time in zip(parts, cut(int(body.duration_ns[row]), count, 1), strict=True):
            rewrite.set_duration(part, time)
        for j, part in enumerate(parts):
            rewrite.rename(part, f"{rewrite.name(row)} [{j + 1}/{count}]")
        if seqs is not None:
            rewrite.set("comm_seq", parts, (seqs[i] + np.arange(count)).tolist())
        rewrite.set("mem_alloc", parts[1:], None)
        rewrite.set("mem_free", parts[:-1], None)
        for a, b in pairwise(parts):
            rewrite.edge(a, b, turn[bool(host[row])])
        rewrite.end_with(row, parts[-1])
