"""Runs of any shape: nothing ran, little is said, what is said makes no sense. Sums hold all the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit as ck
from chakrakit.insight import analyze
from chakrakit.trace.sets import Times, run_of
from chakrakit.views import html_report, write_timeline
from support.examples import examples

nodes = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from([0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 7, 42]),
            "name": st.sampled_from(["a", "cudaLaunchKernel", "ProfilerStep#1", "Memcpy HtoD", ""]),
            "is_cpu_op": st.booleans(),
            "stream": st.sampled_from([None, 7, 20]),
            "tid": st.sampled_from([None, 1, 2]),
            "comm_type": st.sampled_from([None, 0, 2, 6, 99]),
            "comm_size": st.sampled_from([None, 0, 1000, 2**40]),
            "pg_name": st.sampled_from([None, "", "0", "g", "unknown"]),
            "comm_src": st.sampled_from([None, 0, 1, 7]),
            "comm_dst": st.sampled_from([None, 0, 1]),
            "step": st.sampled_from([None, 0, 1]),
            "own_ns": st.sampled_from([None, 0, 50]),
            "inputs_values": st.sampled_from(
                [None, "[]", "nonsense", '[[1,2,0,8,4,"cuda:0"]]', "[[[1]],{}]"]
            ),
            "outputs_values": st.sampled_from([None, '[[1,2,0,8,4,"cuda:0"]]']),
            "start": st.integers(-1, 300),
            "length": st.integers(-1, 100),
        }
    ),
    max_size=12,
)
FIELDS = ("type", "name")
links = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(0, 10), st.integers(-20, 90)),
    max_size=12,
)


def trace_of(rows: list[dict], edges: list[tuple[int, int, int, int]]) -> tuple[ck.Trace, Times]:
    columns = {
        k: [r[k] for r in rows]
        for k in (rows[0] if rows else {"name": 0})
        if k not in ("start", "length")
    }
    columns = {k: v for k, v in columns.items() if k in FIELDS or any(x is not None for x in v)}
    good = [
        (min(a, b), max(a, b), k, lag) for a, b, k, lag in edges if a != b and max(a, b) < len(rows)
    ]
    bodies = (
        ck.Edges.of(*([g[i] for g in good] for i in (0, 1, 2)), lag=[g[3] for g in good])
        if good
        else None
    )
    start = np.array([r["start"] for r in rows], np.int64)
    length = np.array([r["length"] for r in rows], np.int64)
    end = np.where((start < 0) | (length < 0), -1, start + length)
    return ck.Trace.from_columns(columns, bodies), Times(np.where(end < 0, -1, start), end)


@pytest.mark.slow
@examples(80)
@given(st.lists(st.tuples(nodes, links), min_size=1, max_size=3), st.booleans())
def test_sums_hold_whatever_the_trace(ranks, picoseconds):
    bodies = [trace_of(*r) for r in ranks]
    factor = 1000 if picoseconds else 1
    times = {
        i: Times(*(np.where(a < 0, a, a * factor) for a in (t.start, t.end)))
        for i, (_, t) in enumerate(bodies)
    }
    traces = ck.TraceSet([t for t, _ in bodies], groups=ck.Groups({"g": [0, 1, 5]}))
    run = run_of(traces, times, tick_ps=1 if picoseconds else 1000)
    analysis = analyze(run)
    for rank in analysis.ranks:
        b = rank.breakdown
        assert b.compute_ns + b.exposed_comm_ns + b.exposed_copy_ns + b.idle_ns == analysis.span_ns
        assert sum(b.idle.values()) == b.idle_ns
        assert b.exposed_wait_ns + b.bubble_ns <= b.exposed_comm_ns
    path = analysis.critical_path
    assert sum(path.attribution.values()) == path.length_ns
    assert path.length_ns == (analysis.span_ns if path.segments else 0)
    assert html_report(analysis, {})


@pytest.mark.slow
@examples(40)
@given(st.tuples(nodes, links))
def test_any_run_has_a_timeline(tmp_path_factory, rank):
    trace, times = trace_of(*rank)
    run = run_of(ck.TraceSet([trace]), {0: times}, tick_ps=1000)
    folder = tmp_path_factory.mktemp("t")
    for name, chrome in (("t.pftrace", False), ("t.json", True)):
        write_timeline(run, folder / name, chrome=chrome)
        assert (folder / name).stat().st_size > 0


def test_nodes_that_never_ran_are_counted():
    t = ck.TraceBuilder()
    t.comp("ran", stream=7)
    t.comp("never", stream=7)
    run = run_of(
        ck.TraceSet([t.build()]), {0: Times(np.array([0, -1]), np.array([9, -1]))}, tick_ps=1000
    )
    analysis = analyze(run)
    assert analysis.span_ns == 9
    assert analysis.notes == ["1 nodes have no times and are left out"]


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_anything(count):
    t = ck.TraceBuilder()
    for _ in range(count):
        t.comp("a", stream=7)
    times = Times(np.zeros(count, np.int64), np.full(count, 5))
    analysis = analyze(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000))
    assert analysis.span_ns == 5 * count
