"""Compression: fewer bytes on the wire for the time a codec takes before and after."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.passes.comm.channels import Channel
from chakrakit.passes.comm.job import Job
from chakrakit.passes.comm.rewrite import Rewrite, data_kind
from chakrakit.trace.model import CollectiveType, EdgeKind
from chakrakit.trace.placement import has_edges, issue_order, lane_of, on_host, stream_lane

COMPRESSIBLE = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "message",
)
_GATHERS = (CollectiveType.ALL_GATHER, CollectiveType.GATHER)
_SCATTERS = (
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.REDUCE_SCATTER_BLOCK,
    CollectiveType.SCATTER,
)


@dataclass(frozen=True)
class Codec:
    """`ratio` uncompressed bytes become one; both rates are in uncompressed bytes per second."""

    ratio: float
    encode: float
    decode: float
    stream: int | None
    """The first of the streams codecs run on: for each stream of communication one for encoders and
    one for decoders, so that neither waits behind the other. None: on the communication's own."""


def compress(job: Job, codec: Codec) -> None:
    """Each call moves `1/ratio` of its bytes, after an encoder and before a decoder."""
    work: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for channel, chosen in job.chosen(COMPRESSIBLE):
        for side in channel.sides:
            bytes_of = _work(job, channel, chosen, side.is_send)
            work[side.body].update(zip(side.rows[chosen].tolist(), bytes_of, strict=True))
    for body, calls in work.items():
        job.edit(body, partial(_compressed, codec, calls))


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


def _compressed(codec: Codec, work: Mapping[int, tuple[int, int]], rewrite: Rewrite) -> None:
    body, issued = rewrite.body, issue_order(rewrite.body)
    streams, reads = _Streams(codec, list(work), rewrite), data_kind(body)
    for row, (encoded, decoded) in sorted(work.items(), key=lambda item: issued[item[0]]):
        for column in ("comm_size", "out_size"):
            if (size := rewrite.number(column, row)) is not None:
                rewrite.set(column, row, math.ceil(size / codec.ratio))
        rewrite.set_duration(row, round(int(body.duration_ns[row]) / codec.ratio))
        if encoded:
            encoder = streams.add(row, "encode", encoded / codec.encode, before=True)
            rewrite.edge(encoder, row, reads)
            rewrite.first[row] = encoder
        if decoded:
            decoder = streams.add(row, "decode", decoded / codec.decode, before=False)
            rewrite.edge(row, decoder, reads)
            rewrite.last[row] = decoder
        if codec.stream is None:  # in line: whoever is next in turn waits for the codec too
            rewrite.turn_first[row], rewrite.turn_last[row] = rewrite.first[row], rewrite.last[row]


class _Streams:
    """Puts codecs on their streams. Streams ordered by edges get edges for the newcomers too."""

    def __init__(self, codec: Codec, rows: list[int], rewrite: Rewrite) -> None:
        self.codec, self.rewrite = codec, rewrite
        self.host, self.lane = on_host(rewrite.body), lane_of(rewrite.body)
        self.by_edges = has_edges(rewrite.body, EdgeKind.STREAM)
        self.before: dict[int, int] = {}
        lanes = np.unique(self.lane[rows][~self.host[rows]]).tolist()
        self.number = {lane: i for i, lane in enumerate(lanes)}
        if codec.stream is not None:
            self._check_free(codec.stream, codec.stream + 2 * len(self.number))

    def _check_free(self, first: int, end: int) -> None:
        """Codecs would stand in the order of whatever else is on their stream."""
        if np.isin(self.lane, stream_lane(np.arange(first, end))).any():
            raise ConfigError(
                f"stream: some of {first}..{end - 1} are in use; give the first of {end - first} free "
                "streams, or none to run codecs on the communication's own"
            )

    def add(self, row: int, what: str, seconds: float, before: bool) -> int:
        """An encoder or decoder of a communication; a host's runs on the communication's thread."""
        nanos = round(seconds * 1e9)
        columns: dict[str, Any] = {"name": f"{self.rewrite.name(row)}.{what}"}
        columns |= {
            "num_ops": 0,  # its time is given; some simulators ask every compute node for these
            "tensor_size": 0,
            "duration_micros": nanos // 1000,
            "duration_ns": nanos if nanos % 1000 else None,
        }
        stream = None
        if self.codec.stream is not None and not self.host[row]:
            stream = self.codec.stream + 2 * self.number[int(self.lane[row])] + (0 if before else 1)
            columns["stream"] = stream
        added = self.rewrite.work(row, -1 if before else 1, **columns)
        if stream is not None and self.by_edges:
            if stream in self.before:
                self.rewrite.edge(self.before[stream], added, EdgeKind.STREAM)
            self.before[stream] = added
        return added
