"""Messages of another size: calls fused, cut, and gradients put into new buckets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.passes.comm import Comm
from support.comm_cases import alike, edges_of, generated, gradients, makespan, values_of

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def test_a_bucket_waits_for_its_last_gradient_and_all_wait_for_it():
    out = (alike(gradients([400, 400, 400, 400, 400])) | Comm("bucket", size=1000)).body(0)
    assert out.names.to_pylist() == [
        "b0",
        "b1",
        "g1 [+1]",
        "b2",
        "b3",
        "g3 [+1]",
        "b4",
        "g4",
        "step",
    ]
    assert values_of(out, "comm_size")["g1 [+1]"] == (800,)
    assert {s for s, d in edges_of(out) if d == "g1 [+1]"} == {"b0", "b1"}
    assert {s for s, d in edges_of(out) if d == "g3 [+1]"} == {"b2", "b3", "g1 [+1]"}
    assert {s for s, d in edges_of(out) if d == "step"} >= {"g1 [+1]", "g3 [+1]", "g4"}


def test_a_large_gradient_is_cut_and_its_pieces_run_in_turn():
    out = (alike(gradients([2500, 300])) | Comm("bucket", size=1000)).body(0)
    sizes = {n: v[0] for n, v in values_of(out, "comm_size").items() if n.startswith("g")}
    assert sizes == {"g0 [1/3]": 834, "g0 [2/3]": 833, "g0 [3/3]": 833, "g1": 300}
    assert {("g0 [1/3]", "g0 [2/3]"), ("g0 [2/3]", "g0 [3/3]"), ("g0 [3/3]", "g1")} <= edges_of(out)
    assert {d for s, d in edges_of(out) if s == "g0 [1/3]"} == {"g0 [2/3]"}


def test_a_result_that_is_needed_in_between_keeps_calls_apart():
    t = TraceBuilder()
    a = t.collective("first", AR, 100)
    b = t.comp("reads it", duration_ns=10, deps=[a])
    t.collective("second", AR, 100, deps=[b])
    out = (alike(t) | Comm("fuse", size=1000)).body(0)
    assert out.names.to_pylist() == ["first", "reads it", "second"]


def test_a_call_that_reads_the_one_before_it_stays_apart():
    t = TraceBuilder()
    a = t.collective("norm", AR, 100)
    t.collective("of the norm", AR, 100, deps=[a])
    assert len((alike(t) | Comm("fuse", size=1000)).body(0)) == 2


def test_what_waits_on_another_rank_keeps_calls_apart_too():
    """Rank 0 needs `mid` before b, rank 1 makes `mid` from a: fused, both would wait for ever."""
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        first = t.collective("a", AR, 100, pg_name="p")
        mid = t.collective("mid", AR, 100, pg_name="q", deps=[first] if rank else [])
        t.collective("b", AR, 100, pg_name="p", deps=[] if rank else [mid])
        bodies.append(t.build())
    traces = TraceSet(bodies, groups=Groups({"p": [0, 1], "q": [0, 1]}))
    out = traces | Comm("fuse", size=1000, groups=("p",))
    assert [len(out.body_at(i)) for i in range(2)] == [3, 3]
    assert makespan(out, "dgx-h100:2") > 0


def test_two_groups_fused_together_do_not_wait_for_each_other():
    """a1 → b1 and b2 → a2: either pair may become one call, not both."""
    t = TraceBuilder()
    a1 = t.collective("a1", AR, 100, pg_name="p")
    t.collective("b1", AR, 100, pg_name="q", deps=[a1])
    b2 = t.collective("b2", AR, 100, pg_name="q")
    t.collective("a2", AR, 100, pg_name="p", deps=[b2])
    traces = TraceSet(
        [t.build()], {r: Binding(0) for r in range(2)}, Groups({"p": [0, 1], "q": [0, 1]})
    )
    out = traces | Comm("fuse", size=1000)
    assert len(out.body(0)) == 3
    assert makespan(out, "dgx-h100:2") > 0


def test_other_types_and_element_types_are_not_fused():
    t = TraceBuilder()
    t.collective("x", AR, 100, comm_dtype="bf16")
    t.collective("y", AR, 100, comm_dtype="fp32")
    t.collective("z", RS, 100, comm_dtype="fp32")
    assert len((alike(t) | Comm("fuse", size=1000)).body(0)) == 3


def test_messages_are_cut_and_fused_on_both_ends():
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        for i in range(4):
            (t.recv if rank else t.send)(f"m{i}", 0, 1, 1000, tag=3)
        bodies.append(t.build())
    traces = TraceSet(bodies)
    fused = traces | Comm("fuse", size=2000)
    assert [fused.body_at(i).column("comm_size").tolist() for i in range(2)] == [[2000, 2000]] * 2
    cut = traces | Comm("split", size=600)
    assert [cut.body_at(i).column("comm_size").tolist() for i in range(2)] == [[500] * 8] * 2
    assert makespan(fused, "dgx-h100:2") > 0
    assert makespan(cut, "dgx-h100:2") > 0


@pytest.mark.parametrize("size", [60e6, 500e6, 2e9])
def test_no_bucket_is_larger_than_asked_and_no_two_neighbors_would_fit_one(size):
    body = (generated("ddp") | Comm("bucket", size=size)).body(0)
    pieces = ["/" in name for name in body.names.to_pylist()]
    gradients = np.flatnonzero(
        (body.column("comm_type", -1) == AR) & (body.column("comm_size", 0) > 1000)
    )
    sizes = body.column("comm_size", 0)
    assert sizes[gradients].max() <= size
    for a, b in pairwise(gradients.tolist()):
        assert pieces[a] or pieces[b] or sizes[a] + sizes[b] > size


def test_held_memory_is_held_once():
    traces = generated("fsdp")
    out = traces | Comm("split", parts=4)
    for column in ("mem_alloc", "mem_free"):
        before, after = (t.body(0).column(column, 0).sum() for t in (traces, out))
        assert before == after > 0


@pytest.mark.parametrize("change", [{"parts": 10**9}, {"size": "1 B"}])
def test_a_call_is_not_cut_into_millions(change):
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 1 << 30)
    with pytest.raises(ConfigError, match=r"1 calls .* pieces; 1,000,000 is the most: give fewer"):
        TraceSet([t.build(), t.build()]) | Comm("split", **change)
