"""Comm, all actions: what each states it preserves holds on random, generated and recorded sets."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrakit
from chakrakit import EdgeKind, Edges
from chakrakit.errors import ChakraError, ConfigError, TraceError
from chakrakit.passes.base.spec import parse
from chakrakit.passes.comm.channels import channels_of
from chakrakit.passes.comm.comm import Comm
from chakrakit.trace.model.schema import CollectiveType
from support.comm_cases import CASES, bytes_of, case, compute_of, data_kinds, makespan, reached
from support.random_workloads import random_case

KEEP_BYTES = [
    Comm("bucket", size="60 MB"),
    Comm("bucket", size="1 GB"),
    Comm("fuse", size="1 GB"),
    Comm("split", parts=3),
    Comm("split", size="40 MB"),
]
REORDER = [Comm("prefetch"), Comm("delay"), Comm("serialize"), Comm("offload", stream=77)]
COMPRESS = [
    Comm("compress", ratio=4, throughput="200 GB/s"),
    Comm("compress", ratio=2.5, throughput="1 TB/s", decode_throughput="90 GB/s", stream=90),
]
SMALL = [Comm("bucket", size=5000), Comm("fuse", size=20_000), Comm("split", size=1000)]
OTHERS = [Comm("split-all-reduce"), Comm("join-all-reduce")]


def _applied(traces, change):
    """The changed set, or None where the pass says that it would deadlock or does not apply."""
    try:
        out = traces | change
        for number in range(out.body_count):
            out.body_at(number)
    except (TraceError, ConfigError) as error:
        if "wait for itself" in str(error) or "runs on the host" in str(error):
            return None
        raise
    return out


def _assert_kept(traces, out, change):
    assert (out.ranks, out.groups, out.body_count) == (
        traces.ranks,
        traces.groups,
        traces.body_count,
    )
    assert out.bindings == traces.bindings
    known, found = chakrakit.validate(traces).counts, chakrakit.validate(out).counts
    assert found.keys() <= known.keys()
    channels_of(out)  # calls of all members match, or this is an error
    for number in range(traces.body_count):
        a, b = traces.body_at(number), out.body_at(number)
        assert compute_of(a) == compute_of(b)
        kinds = data_kinds() if change in REORDER else None
        assert reached(a, kinds) <= reached(b, kinds)


# --- generated and recorded sets ----------------------------------------------------------------


ALL = [*KEEP_BYTES, *REORDER, *COMPRESS, *OTHERS]
FEW = [("ddp", change) for change in ALL] + [("dp-tp-pp", c) for c in (KEEP_BYTES[1], REORDER[2])]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(n, c, id=f"{n} {c}", marks=[] if (n, c) in FEW else pytest.mark.slow)
        for n in CASES
        for c in ALL
    ],
)
def test_what_is_stated_holds_and_the_set_still_runs(name, change):
    traces, machine, compute = case(name)
    out = _applied(traces, change)
    if out is None:
        return
    _assert_kept(traces, out, change)
    assert makespan(out, machine, compute) > 0
    if change in KEEP_BYTES or change in REORDER:
        assert bytes_of(out) == bytes_of(traces)


def _issued(traces, rng):
    """The same with some of the compute that communication reads only saying when it is issued."""
    bodies = []
    for body in (traces.body_at(i) for i in range(traces.body_count)):
        e = body.edges
        may = (body.types[e.src] == 4) & (body.types[e.dst] >= 5) & (e.form == 0)
        turned = may & np.array([rng.random() < 0.6 for _ in range(len(e))], bool)
        kind = np.where(turned, np.int8(EdgeKind.CTRL), e.kind)
        bodies.append(body.with_edges(Edges.of(e.src, e.dst, kind, e.form, e.lag)))
    return chakrakit.TraceSet(bodies, traces.bindings, traces.groups)


# --- random sets --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [*SMALL, *KEEP_BYTES[3:4], *REORDER, *COMPRESS, *OTHERS], ids=str
)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 5000))
def test_random_sets_keep_it_too(change, seed):
    traces, machine, _ = random_case(seed)
    if change in REORDER:
        traces = _issued(traces, random.Random(seed))
    if change.action == "join-all-reduce":
        traces = traces | Comm("split-all-reduce")
    try:
        makespan(traces, machine)
    except ChakraError:
        return  # a random set that never ran
    out = _applied(traces, change)
    if out is None:
        return
    _assert_kept(traces, out, change)
    makespan(out, machine)
    if change in SMALL or change in REORDER:
        assert bytes_of(out) == bytes_of(traces)


# --- compression --------------------------------------------------------------------------------


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
    out = traces | COMPRESS[1]
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


# --- which calls --------------------------------------------------------------------------------


def test_groups_types_phases_and_sizes_choose():
    traces, _, _ = case("dp-tp-pp")
    change = Comm("split", parts=2, groups=("dp",), min_size="100 MB")
    before, after = traces.body_at(0), (traces | change).body_at(0)
    chosen = (before.column("pg_name", "") == "dp") & (before.column("comm_size", 0) >= 1e8)
    assert 0 < chosen.sum() < (before.types >= 5).sum()
    assert len(after) == len(before) + chosen.sum()


def test_a_group_is_known_by_its_own_name_too():
    traces, _, _ = case("ddp")
    name = next(iter(traces.groups))
    role = next(iter(traces.bindings[0].groups))
    out = [traces | Comm("split", parts=2, groups=(g,)) for g in (name, role)]
    assert out[0].body(0).table.equals(out[1].body(0).table)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("comm{action=compress, ratio=4}", "needs throughput"),
        ("comm{action=bucket, size=1MB, ratio=2}", "bucket has no ratio"),
        ("comm{action=bucket, size=0}", "0 would never"),
        ("comm{action=split}", "size or parts"),
        ("comm{action=split, parts=0}", "1 or more"),
        ("comm{action=compress, ratio=0.5, throughput=1GB/s}", "1 or more"),
        ("comm{action=offload, stream=-1}", "streams are numbers"),
        ("comm{action=fuse, size=1MB, types=[all-reuce]}", "no 'all-reuce'"),
        ("comm{action=shrink}", "action is 'shrink'; there are algorithm, split-all-reduce"),
    ],
)
def test_options_that_make_no_sense_are_refused(spec, message):
    with pytest.raises(ConfigError, match=message):
        parse(spec)


def test_a_group_that_nobody_uses_is_refused():
    with pytest.raises(ConfigError, match="no 'nobody' communicates"):
        case("ddp")[0] | Comm("serialize", groups=("nobody",))


def test_ranks_that_do_not_issue_the_same_are_refused():
    def one(kind):
        t = chakrakit.TraceBuilder()
        t.collective("c", kind, 1000)
        return t.build()

    traces = chakrakit.TraceSet([one(CollectiveType.ALL_REDUCE), one(CollectiveType.ALL_GATHER)])
    with pytest.raises(TraceError, match="do not issue the same"):
        traces | Comm("split", parts=2)


def test_the_report_counts_calls_and_bytes():
    traces, _, _ = case("ddp")
    change = Comm("split-all-reduce")
    rows = {r["type"]: r for r in change.explain(traces, traces | change)["communication"]}
    calls = rows["all-reduce"]["calls before"]
    assert rows["reduce-scatter"]["calls after"] == rows["all-gather"]["calls after"] == calls
    assert rows["all-reduce"]["calls after"] == 0
    assert rows["reduce-scatter"]["bytes after"] == rows["all-reduce"]["bytes before"]


def test_specs_read_back():
    for change in [*KEEP_BYTES, *REORDER, *COMPRESS, *OTHERS]:
        assert parse(str(change)) == change
