"""Comm, action by action: small traces with what comes out beside them, and oracles for large ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import chakrakit
from chakrakit import Binding, CollectiveType, EdgeKind, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.machines.load.description import parse_machine
from chakrakit.passes.comm.comm import Comm
from chakrakit.simulator.collectives.choice import Algorithms
from chakrakit.simulator.engine.native import SimulationOptions
from chakrakit.simulator.results.simulation import simulate
from support.comm_cases import (
    alike,
    case,
    edges_of,
    generated,
    gradients,
    makespan,
    sorted_edges,
    values_of,
)

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


# --- algorithms ---------------------------------------------------------------------------------


def _simulated(traces, **fixed):
    options = SimulationOptions(
        algorithms=Algorithms(fixed and {k.replace("_", "-"): v for k, v in fixed.items()})
    )
    return simulate(traces, "ethernet-100g:4", options=options)


@pytest.mark.parametrize("name", ["ring", "direct", "double-tree"])
def test_a_call_gets_the_algorithm_it_asks_for(name):
    traces = alike(_one_all_reduce(), 4)
    asked, given = (
        _simulated(traces | Comm("algorithm", algorithm=name)),
        _simulated(traces, all_reduce=name),
    )
    assert asked.makespan_ns == given.makespan_ns
    assert [c.algorithm for c in asked.summary.collectives] == [name]


def test_only_the_chosen_calls_ask_and_auto_takes_it_back():
    t = TraceBuilder()
    t.collective("small", AR, 100)
    t.collective("large", AR, 10_000_000)
    traces = alike(t, 4)
    asked = traces | Comm("algorithm", algorithm="direct", min_size="1 MB")
    assert asked.body(0).table.column("comm_algorithm").to_pylist() == [None, "direct"]
    back = asked | Comm("algorithm", algorithm="auto")
    assert _simulated(back).makespan_ns == _simulated(traces).makespan_ns


def test_an_algorithm_that_is_none_is_refused_by_the_simulator():
    with pytest.raises(ConfigError, match="no algorithm 'rings' for all-reduce"):
        _simulated(alike(_one_all_reduce(), 4) | Comm("algorithm", algorithm="rings"))


# --- types --------------------------------------------------------------------------------------


def _one_all_reduce(**extra):
    t = TraceBuilder()
    a = t.comp("grad", duration_ns=100)
    b = t.collective("sync", AR, 1002, deps=[a], comm_dtype="bf16", **extra)
    t.comp("step", duration_ns=100, deps=[b])
    return t


def test_an_all_reduce_becomes_its_two_halves_with_shards_of_whole_elements():
    out = (alike(_one_all_reduce(comm_seq=5), 4) | Comm("split-all-reduce")).body(0)
    assert values_of(out, "comm_type", "comm_size", "out_size", "comm_seq") == {
        "grad": (-1, -1, -1, -1),
        "sync.reduce-scatter": (RS, 1002, 252, 5),
        "sync.all-gather": (AG, 252, 1002, 6),
        "step": (-1, -1, -1, -1),
    }
    chain = ["grad", "sync.reduce-scatter", "sync.all-gather", "step"]
    assert edges_of(out) == set(pairwise(chain))


@pytest.mark.parametrize("name", ["ddp", "dp-tp-pp", "gpt_fsdp_tp_4", "cnn_ddp_2"])
def test_joining_what_was_split_gives_the_set_back(name):
    traces, _, _ = case(name)
    back = traces | Comm("split-all-reduce") | Comm("join-all-reduce")
    for number in range(traces.body_count):
        a, b = traces.body_at(number), back.body_at(number)
        assert a.names.to_pylist() == b.names.to_pylist()
        for field in ("src", "dst", "kind", "form", "lag", "ctrl"):
            assert sorted_edges(a, field) == sorted_edges(b, field)
        for column in ("type", "comm_type", "duration_ns"):
            if column in a.table.column_names:
                assert a.table.column(column).to_pylist() == b.table.column(column).to_pylist()
        sums = a.column("comm_type", -1) == AR
        assert a.column("comm_size", 0)[sums].tolist() == b.column("comm_size", 0)[sums].tolist()


def test_an_update_between_the_halves_keeps_them_apart():
    """ZeRO: what is gathered is not what was scattered, but what the optimizer made of it."""
    traces = generated("zero1")
    out = traces | Comm("join-all-reduce")
    assert out.body_at(0).table.equals(traces.body_at(0).table)


@pytest.mark.parametrize("ranks", [2, 4])
def test_with_rings_two_halves_take_as_long_as_the_whole(ranks):
    """A ring all-reduce is a ring reduce-scatter and a ring all-gather; only the overhead is paid twice."""
    ring = {"topology": "ring", "size": ranks, "bandwidth": 1e9, "latency": 0}
    machine = parse_machine({"network": [ring]}, "ring")
    fixed = Algorithms({"all-reduce": "ring", "reduce-scatter": "ring", "all-gather": "ring"})
    t = TraceBuilder()
    t.collective("sync", AR, 4_000_000)
    traces = alike(t, ranks)
    times = [
        simulate(s, machine, options=SimulationOptions(algorithms=fixed)).makespan_ns
        for s in (traces, traces | Comm("split-all-reduce"))
    ]
    assert times[0] == times[1]


# --- buckets ------------------------------------------------------------------------------------


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


def test_recorded_numbers_make_room_and_stay_in_step():
    t = gradients([2500, 300, 300])
    numbered = t.build().with_columns({"comm_seq": [None, 7, None, 8, None, 9, None]})
    out = (
        TraceSet([numbered], {r: Binding(0) for r in range(2)}) | Comm("bucket", size=1000)
    ).body(0)
    seqs = {n: v[0] for n, v in values_of(out, "comm_seq").items() if n.startswith("g")}
    assert seqs == {"g0 [1/3]": 7, "g0 [2/3]": 8, "g0 [3/3]": 9, "g2 [+1]": 11}


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


# --- what is around it --------------------------------------------------------------------------


def test_start_and_finish_edges_go_to_the_right_end():
    """A caller's start, a sync on the end: around a call cut in two, first and last piece."""
    t = TraceBuilder()
    launch = t.comp("launch", duration_ns=100, is_cpu_op=True)
    call = t.collective("sync", AR, 1000)
    wait = t.comp("wait", duration_ns=10, is_cpu_op=True)
    inner = t.comp("inner", duration_ns=10, is_cpu_op=True)
    t.edge(launch, call, EdgeKind.LAUNCH, lag_ns=7)
    t.edge(call, wait, EdgeKind.SYNC)
    t.edge(call, inner, EdgeKind.CALL, lag_ns=3)
    out = (alike(t) | Comm("split", parts=2)).body(0)
    assert edges_of(out, EdgeKind.LAUNCH) == {("launch", "sync [1/2]")}
    assert edges_of(out, EdgeKind.SYNC) == {("sync [2/2]", "wait")}
    assert edges_of(out, EdgeKind.CALL) == {("sync [1/2]", "inner")}
    assert sorted(out.edges.lag.tolist()) == [0, 0, 3, 7]


def test_held_memory_is_held_once():
    traces = generated("fsdp")
    out = traces | Comm("split", parts=4)
    for column in ("mem_alloc", "mem_free"):
        before, after = (t.body(0).column(column, 0).sum() for t in (traces, out))
        assert before == after > 0


def test_ids_stay_where_nothing_is_added_and_in_order_where_it_is():
    t = gradients([400, 2500])
    body = t.build().with_columns({"id": [10, 11, 20, 21, 30]})
    body = body.with_edges(t.build().edges)
    out = (TraceSet([body], {r: Binding(0) for r in range(2)}) | Comm("split", size=1000)).body(0)
    assert out.ids.tolist() == [10, 11, 20, 21, 22, 23, 32]


def test_callers_are_still_the_same_nodes():
    t = TraceBuilder()
    t.collective("sync", AR, 4000)
    around = t.comp("around", duration_ns=10)
    body = t.build().with_columns({"caller": [around, None]})
    out = (TraceSet([body], {r: Binding(0) for r in range(2)}) | Comm("split", parts=3)).body(0)
    assert out.column("caller", -1).tolist() == [out.ids[3], out.ids[3], out.ids[3], -1]


def test_a_folded_set_of_many_ranks_costs_what_its_bodies_cost():
    t = gradients([400] * 6)
    traces = TraceSet(
        [t.build()], {r: Binding(0, {"": "g"}) for r in range(20_000)}, Groups({"g": range(20_000)})
    )
    out = traces | Comm("bucket", size=1000)
    assert out.body_count == 1
    assert np.count_nonzero(out.body(0).types == 7) == 3


def test_a_run_gives_traces_to_be_timed_again(tmp_path):
    out = case("cnn_ddp_2")[0] | Comm("split", parts=2)
    assert type(out) is TraceSet
    chakrakit.write(out, tmp_path / "out")
    assert chakrakit.validate(tmp_path / "out").ok
