"""Compact keeps the timing of what remains, under every edit, and says how much smaller it is."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit
from chakrakit.passes.compact import Compact
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges
from chakrakit.trace.timing import schedule
from support import paths
from support.recorded import linked

DATA = paths.DATA / "pytorch"


def _chain():
    """a calls b, then c and d follow; only d launches something."""
    edges = Edges.of(
        [0, 1, 2, 3],
        [1, 2, 3, 4],
        [EdgeKind.CALL, EdgeKind.THREAD, EdgeKind.THREAD, EdgeKind.LAUNCH],
        None,
        [5, 2, 3, 7],
    )
    return chakrakit.Trace.from_columns(
        {
            "name": ["a", "b", "c", "d", "k"],
            "type": [4] * 5,
            "duration_ns": [100, 10, 20, 30, 40],
            "is_cpu_op": [True, True, True, True, False],
        },
        edges,
    )


def test_a_chain_becomes_one_edge_with_the_time_in_between():
    before = chakrakit.TraceSet([_chain()])
    after = before | Compact()
    out = after.trace(0)
    assert out.names.to_pylist() == ["a", "d", "k"]
    assert Compact().explain(before, after) == {"factor": 1.667}
    first = out.edges
    assert (first.src[0], first.dst[0], first.form[0]) == (0, 1, EdgeForm.START_START)
    assert first.lag[0] == 5 + 10 + 2 + 20 + 3


@pytest.mark.parametrize("last_first", [False, True])
def test_edges_may_be_in_any_order(last_first):
    t = chakrakit.TraceBuilder()
    for name in "abc":
        t.comp(name, is_cpu_op=True, duration_ns=10)
    for parent in (1, 0) if last_first else (0, 1):
        t.edge(parent, parent + 1, EdgeKind.THREAD)
    out = Compact().compacted(t.build())
    assert out.names.to_pylist() == ["a", "c"]
    assert out.edges.lag.tolist() == [10]


def test_a_trace_without_such_nodes_comes_back_as_it_is():
    trace = Compact().compacted(_chain())
    assert Compact().compacted(trace) is trace


def _times(trace, factor):
    own = trace.column("own_ns", -1)
    own = np.where(own >= 0, own, trace.duration_ns)
    own = np.where(trace.column("is_cpu_op").astype(bool), own, own * factor)
    return schedule(len(trace), trace.edges, own)


@pytest.mark.parametrize("factor", [0, 1, 10])
@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "cnn_ddp_2"])
def test_real_traces_keep_every_start_under_every_edit(name, factor):
    run = linked(name)
    trace = run.trace(0)
    out = (run | Compact()).trace(0)
    assert len(trace) > 2 * len(out)
    kept = np.searchsorted(trace.ids, out.ids)
    assert (_times(trace, factor).start[kept] == _times(out, factor).start).all()


def test_what_could_be_reached_still_can():
    run = linked("cnn_ddp_2")
    trace = run.trace(0)
    small = Compact().compacted(trace)
    kept = np.searchsorted(trace.ids, small.ids)
    below = np.asarray(trace.graph.descendants([int(kept[1])]))
    small_below = np.asarray(small.graph.descendants([1]))
    assert set(small.ids[small_below]) == set(trace.ids[below]) & set(small.ids)
