"""Communication on another stream: what does not read it no longer waits for it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import chakrakit
from chakrakit import CollectiveType, EdgeKind, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.passes.comm import Comm
from chakrakit.trace.placement import issue_order
from support.comm_cases import DATA, alike, case, edges_of, makespan, values_of

APART = "tpu-v5p"
"""A machine on which communication slows no computation beside it."""
AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def _on_one_stream(by_edges):
    """Compute, a sum, compute that does not read it, compute that does: one stream."""
    t = TraceBuilder()
    a = t.comp("made", duration_ns=5000, stream=1)
    b = t.collective("sync", AR, 100_000, deps=[a], stream=1)
    c = t.comp("other", duration_ns=9000, stream=1)
    d = t.comp("reads", duration_ns=1000, deps=[b], stream=1)
    if by_edges:
        for x, y in ((a, b), (b, c), (c, d)):
            t.edge(x, y, EdgeKind.STREAM)
    return alike(t)


@pytest.mark.parametrize("by_edges", [False, True])
def test_offloaded_communication_runs_beside_what_does_not_read_it(by_edges):
    traces = _on_one_stream(by_edges)
    out = traces | Comm("offload", stream=7)
    t = TraceBuilder()
    t.collective("sync", AR, 100_000)
    sync = makespan(alike(t), APART)
    assert makespan(traces, APART) == pytest.approx(15_000 + sync)
    assert makespan(out, APART) == pytest.approx(5000 + max(9000, sync) + 1000)
    assert values_of(out.body(0), "stream")["sync"] == (7,)


def test_a_stream_in_edges_closes_up_behind_what_left():
    out = (_on_one_stream(True) | Comm("offload", stream=7)).body(0)
    assert edges_of(out, EdgeKind.STREAM) == {("made", "other"), ("other", "reads")}
    assert ("made", "sync") in edges_of(out)
    assert ("sync", "reads") in edges_of(out)


def test_what_nobody_says_to_read_still_holds_back_its_stream():
    t = TraceBuilder()
    t.comp("made", duration_ns=5000, stream=1)
    t.collective("sync", AR, 100_000, stream=1)
    t.comp("next", duration_ns=1000, stream=1)
    traces = alike(t)
    out = traces | Comm("offload", stream=7)
    assert edges_of(out.body(0)) == {("made", "sync"), ("sync", "next")}
    assert makespan(out, "dgx-h100:2") == makespan(traces, "dgx-h100:2")


def test_offloading_to_a_stream_in_use_takes_a_turn_there():
    t = TraceBuilder()
    t.comp("x", duration_ns=5000, stream=2)
    t.collective("sync", AR, 100, stream=1)
    t.comp("y", duration_ns=5000, stream=2)
    for pair in ((0, 2),):
        t.edge(*pair, EdgeKind.STREAM)
    out = (alike(t) | Comm("offload", stream=2)).body(0)
    assert edges_of(out, EdgeKind.STREAM) == {("x", "sync"), ("sync", "y"), ("x", "y")}


def test_host_communication_has_no_stream():
    with pytest.raises(ConfigError, match="runs on the host"):
        case("cnn_ddp_2")[0] | Comm("offload", stream=7)


def _recorded_kernels():
    """A recording with NCCL kernels on a stream of their own, order in edges; it has no sizes: 1 MB each."""
    run, _ = chakrakit.link([DATA.parent / "hta" / "nccl_parser_config.json.gz"])
    body = run.body(run.ranks[0])
    sizes = [1_000_000 if t == 7 else None for t in body.types.tolist()]
    groups = Groups({name: [0] for name in run.groups})
    return TraceSet([body.with_columns({"comm_size": sizes})], groups=groups)


STREAMED = [
    Comm("offload", stream=800),
    Comm("compress", ratio=2, throughput="1 GB/s", stream=900),
    Comm("compress", ratio=2, throughput="1 GB/s"),
    Comm("serialize"),
    Comm("prefetch"),
    Comm("split", parts=3),
    Comm("split-all-reduce"),
    Comm("fuse", size="3 MB"),
]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "change",
    [pytest.param(c, id=str(c), marks=[pytest.mark.slow] * (c in STREAMED[2:])) for c in STREAMED],
)
def test_streams_of_a_recording_stay_in_order(change):
    """What was in order on a stream still is, through edges alone: all rows of each stream are one chain."""
    traces = _recorded_kernels()
    out = (traces | change).body(0)
    assert chakrakit.validate(out).ok
    order, stream = issue_order(out), out.column("stream", -1)
    for number in np.unique(stream[stream >= 0]).tolist():
        rows = np.flatnonzero((stream == number) & ~out.column("is_cpu_op", False).astype(bool))
        rows = rows[np.argsort(order[rows])]
        for a, b in pairwise(rows.tolist()):
            assert out.graph.descendants([a])[b]
    assert makespan(traces | change, "dgx-h100:1") > 0


def test_order_can_be_changed_where_sizes_are_not_known():
    run, _ = chakrakit.link([DATA.parent / "hta" / "nccl_parser_config.json.gz"])
    out = (run | Comm("offload", stream=800)).body(run.ranks[0])
    assert set(out.column("stream", -1)[out.types == 7].tolist()) == {800}
    assert len((run | Comm("split", parts=2)).body(run.ranks[0])) == len(out)
