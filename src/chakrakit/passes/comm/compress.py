"""Compression: fewer bytes on the wire for the time a codec takes before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.passes.comm.channels import I64, Channel
from chakrakit.passes.comm.job import Job
from chakrakit.passes.comm.lanes import (
    data_kind,
    has_edges,
    lane_of,
    on_host,
    stream_lane,
)
from chakrakit.passes.comm.rewrite import Rewrite
from chakrakit.trace.edges import EdgeKind
from chakrakit.trace.schema import CollectiveType

COMPRESSIBLE = (
    "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather",
    "scatter", "message",
)  # fmt: skip
_GATHERS = (CollectiveType.ALL_GATHER, CollectiveType.GATHER)
_SCATTERS = (
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.REDUCE_SCATTER_BLOCK,
    CollectiveType.SCATTER,
)


@dataclass(frozen=True)
class Codec:
    """`ratio` uncompressed bytes become one; both rates are in uncompressed bytes a second."""

    ratio: float
    encode: float
    decode: float
    stream: int | None
    """Where encoders run; decoders on the next one. None: on the communication's own."""


def compress(job: Job, codec: Codec) -> None:
    """Each call moves `1/ratio` of its bytes, after an encoder and before a decoder."""
    for channel, chosen in job.chosen(COMPRESSIBLE):
        for side in channel.sides:
            work = _work(job, channel, chosen, side.is_send)
            job.edit(side.body, partial(_compressed, codec, side.rows[chosen], work))


def _work(job: Job, channel: Channel, chosen: I64, is_send: bool) -> list[tuple[int, int]]:
    """Bytes each call encodes and decodes: its input, its output; of a message one of the two."""
    found = []
    for kind, size in zip(
        channel.types[chosen].tolist(), channel.sizes[chosen].tolist(), strict=True
    ):
        if kind in _GATHERS:
            found.append((size, size * job.members(channel)))
        elif kind in _SCATTERS:
            found.append((size, -(-size // job.members(channel))))
        elif kind < 0:
            found.append((size, 0) if is_send else (0, size))
        else:
            found.append((size, size))
    return found


def _compressed(codec: Codec, rows: I64, work: Sequence[tuple[int, int]], rewrite: Rewrite) -> None:
    streams = _Streams(codec, rewrite)
    for row, (encoded, decoded) in zip(rows.tolist(), work, strict=True):
        body = rewrite.body
        for column in ("comm_size", "out_size"):
            if body.has(column)[row]:
                size = int(body.column(column, 0)[row])
                rewrite.set(column, row, math.ceil(size / codec.ratio))
        rewrite.set_duration(row, round(int(body.duration_ns[row]) / codec.ratio))
        if encoded:
            encoder = streams.add(row, "encode", encoded / codec.encode, before=True)
            rewrite.edge(encoder, row, data_kind(body))
            rewrite.first[row] = encoder
        if decoded:
            decoder = streams.add(row, "decode", decoded / codec.decode, before=False)
            rewrite.edge(row, decoder, data_kind(body))
            rewrite.last[row] = decoder
        if codec.stream is None:  # in line: whoever is next in turn waits for the codec too
            rewrite.turn_first[row], rewrite.turn_last[row] = rewrite.first[row], rewrite.last[row]


class _Streams:
    """Puts codecs on their streams. Streams ordered by edges get edges for the newcomers too."""

    def __init__(self, codec: Codec, rewrite: Rewrite) -> None:
        self.codec, self.rewrite = codec, rewrite
        self.host = on_host(rewrite.body)
        self.by_edges = has_edges(rewrite.body, EdgeKind.STREAM)
        self.before: dict[int, int] = {}
        if codec.stream is not None:
            _check_free(rewrite, codec.stream)

    def add(self, row: int, what: str, seconds: float, before: bool) -> int:
        """An encoder or decoder of a communication; a host's runs on the communication's thread."""
        nanos = round(seconds * 1e9)
        columns: dict[str, Any] = {"name": f"{self.rewrite.name(row)}.{what}"}
        columns |= {
            "duration_micros": nanos // 1000,
            "duration_ns": nanos if nanos % 1000 else None,
        }
        stream = None
        if self.codec.stream is not None and not self.host[row]:
            stream = columns["stream"] = self.codec.stream + (0 if before else 1)
        added = self.rewrite.work(row, -1 if before else 1, **columns)
        if stream is not None and self.by_edges:
            if stream in self.before:
                self.rewrite.edge(self.before[stream], added, EdgeKind.STREAM)
            self.before[stream] = added
        return added


def _check_free(rewrite: Rewrite, stream: int) -> None:
    """Codecs would stand in the order of whatever else is on their stream."""
    used = np.isin(lane_of(rewrite.body), [stream_lane(stream), stream_lane(stream + 1)])
    if used.any():
        raise ConfigError(
            f"stream: {stream} or {stream + 1} is in use; give the first of two free streams, or none "
            "to run codecs on the communication's own"
        )
