"""Compression: calls move fewer bytes, and an encoder before and a decoder after each take time."""

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
from chakrakit.passes.comm.channels import BodyChannel
from chakrakit.passes.comm.job import CommJob
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
class MessageCodec:
    """`ratio` uncompressed bytes become one; both rates are in uncompressed bytes per second."""

    ratio: float
    encode: float
    decode: float
    stream: int | None
    """The first of the streams that codecs run on: for each stream of communication one for encoders and
    one for decoders, so that neither waits behind the other. None: the communication's own stream."""


def compress(job: CommJob, codec: MessageCodec) -> None:
    """Makes each call move `1/ratio` of its bytes, after an encoder and before a decoder."""
    work: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for channel, indices in job.selected_calls(COMPRESSIBLE):
        for side in channel.sides:
            bytes_of = _work(job, channel, indices, side.is_send)
            work[side.body].update(zip(side.rows[indices].tolist(), bytes_of, strict=True))
    for body, calls in work.items():
        job.edit(body, partial(_compressed, codec, calls))


def _work(job: CommJob, channel: BodyChannel, calls: I64, is_send: bool) -> list[tuple[int, int]]:
    """Returns the bytes that each call encodes (its input) and decodes (its output).

    A message does one of the two.
    """
    coded_bytes = []
    for kind, size in zip(
        channel.types[calls].tolist(), channel.sizes[calls].tolist(), strict=True
    ):
        if kind in _GATHERS:
            coded_bytes.append((size, size * job.members(channel)))
        elif kind in _SCATTERS:
            coded_bytes.append((size, -(-size // job.members(channel))))
        elif kind < 0:
            coded_bytes.append((size, 0) if is_send else (0, size))
        else:
            coded_bytes.append((size, size))
    return coded_bytes


def _compressed(codec: MessageCodec, work: Mapping[int, tuple[int, int]], rewrite: Rewrite) -> None:
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
    """Adds codecs to their streams. Where edges give the order of a stream, codecs get such edges too."""

    def __init__(self, codec: MessageCodec, rows: list[int], rewrite: Rewrite) -> None:
        self.codec, self.rewrite = codec, rewrite
        self.host, self.lane = on_host(rewrite.body), lane_of(rewrite.body)
        self.by_edges = has_edges(rewrite.body, EdgeKind.STREAM)
        self.before: dict[int, int] = {}
        lanes = np.unique(self.lane[rows][~self.host[rows]]).tolist()
        self.number = {lane: i for i, lane in enumerate(lanes)}
        if codec.stream is not None:
            self._check_free(codec.stream, codec.stream + 2 * len(self.number))

    def _check_free(self, first: int, end: int) -> None:
        """Refuses streams in use: codecs would wait for whatever else runs there."""
        if np.isin(self.lane, stream_lane(np.arange(first, end))).any():
            raise ConfigError(
                f"stream: some of {first}..{end - 1} are in use; give the first of {end - first} free "
                "streams, or none to run codecs on the communication's own"
            )

    def add(self, row: int, codec_name: str, seconds: float, before: bool) -> int:
        """Adds an encoder or decoder for a call and returns its row.

        On the host it runs on the call's thread.
        """
        nanos = round(seconds * 1e9)
        columns: dict[str, Any] = {"name": f"{self.rewrite.name(row)}.{codec_name}"}
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
