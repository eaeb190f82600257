"""Compression: fewer bytes on the wire, and a codec on both ends."""

from __future__ import annotations

import math

import pytest

import chakrakit
from chakrakit import CollectiveType
from chakrakit.errors import ConfigError
from chakrakit.passes.comm import Comm
from support.comm_cases import case, makespan

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def test_compression_divides_bytes_and_adds_the_codec_on_both_ends():
    t = chakrakit.TraceBuilder()
    made = t.comp("grad", duration_ns=1000, stream=1)
    sync = t.collective("sync", CollectiveType.ALL_REDUCE, 4_000_000, deps=[made], stream=2)
    t.comp("step", duration_ns=1000, deps=[sync], stream=1)
    traces = chakrakit.TraceSet([t.build()] * 1, {r: chakrakit.Binding(0) for r in range(2)})
    out = (
        traces | Comm("compress", ratio=4, throughput="100 GB/s", decode_throughput="50 GB/s")
    ).body(0)
    assert out.names.to_pylist() == ["grad", "sync.encode", "sync", "sync.decode", "step"]
    assert out.duration_ns.tolist() == [1000, 40_000, 0, 80_000, 1000]
    assert out.column("comm_size", 0).tolist() == [0, 0, 1_000_000, 0, 0]
    assert out.column("stream").tolist() == [1, 2, 2, 2, 1]
    assert list(zip(out.edges.src.tolist(), out.edges.dst.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
    ]
    assert out.ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["ddp", "fsdp", "ring attention"])
def test_compressed_bytes_are_the_ratio_of_each_call(name):
    traces, _, _ = case(name)
    change = Comm("compress", ratio=2.5, throughput="1 TB/s", stream=90)
    out = traces | change
    for number in range(traces.body_count):
        before, after = traces.body_at(number), out.body_at(number)
        old = before.column("comm_size", 0)[before.types >= 5]
        new = after.column("comm_size", 0)[after.types >= 5]
        assert new.tolist() == [math.ceil(s / 2.5) for s in old.tolist()]


def test_with_codecs_of_no_cost_the_time_is_that_of_smaller_messages():
    """An oracle: the same set with its sizes divided by hand."""
    traces, machine, compute = case("ddp")
    body = traces.body_at(0)
    sizes = body.table.column("comm_size").to_pylist()
    hand = body.with_columns({"comm_size": [None if s is None else -(-s // 4) for s in sizes]})
    divided = chakrakit.TraceSet([hand], traces.bindings, traces.groups, traces.card)
    free = traces | Comm("compress", ratio=4, throughput="1e30 B/s", stream=90)
    assert makespan(free, machine, compute) == makespan(divided, machine, compute)


def test_pieces_on_codec_streams_overlap_with_the_wire():
    """Cut in eight, encoding, sending and decoding go on at once: less than one after the other."""
    t = chakrakit.TraceBuilder()
    t.collective("sync", CollectiveType.ALL_REDUCE, 1 << 30, stream=2)
    traces = chakrakit.TraceSet([t.build()], {r: chakrakit.Binding(0) for r in range(4)})
    whole = makespan(traces | Comm("compress", ratio=4, throughput="400 GB/s"), "ethernet-100g:4")
    pieces = traces | Comm("split", parts=8)
    cut = makespan(
        pieces | Comm("compress", ratio=4, throughput="400 GB/s", stream=50), "ethernet-100g:4"
    )
    assert cut < 0.98 * whole


def test_codecs_of_each_stream_of_communication_have_streams_of_their_own():
    """Else an encoder that waits for a gradient would hold back those of another group."""
    traces, _, _ = case("dp-tp-pp")
    body = (traces | Comm("compress", ratio=2, throughput="1 TB/s", stream=90)).body_at(0)
    names, streams = body.names.to_pylist(), body.column("stream", -1).tolist()
    calls = dict(zip(names, streams, strict=True))
    pairs = {
        (calls[n.rpartition(".")[0]], n.rpartition(".")[2], s)
        for n, s in calls.items()
        if n.endswith((".encode", ".decode"))
    }
    assert len({s for _, _, s in pairs}) == len(pairs) >= 4


def test_a_codec_stream_in_use_is_refused():
    traces, _, _ = case("ddp")
    with pytest.raises(ConfigError, match="in use"):
        (traces | Comm("compress", ratio=2, throughput="1 GB/s", stream=0)).body(0)
