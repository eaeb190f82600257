"""Kept rows wait for each other as before, through rows that were left out."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit import EdgeForm, EdgeKind, Run, TraceBuilder
from chakrakit.passes.select import Select, with_bridging_edges
from chakrakit.trace.validation import validate
from support.examples import examples
from support.recorded import linked

START, END = 0, 1


def test_a_row_left_out_becomes_an_edge_without_its_time():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=5)
    b = t.comp("b", duration_ns=7, deps=[a])
    t.comp("c", duration_ns=9, deps=[b])
    edges = with_bridging_edges(t.build(), np.array([True, False, True])).edges
    assert (edges.src.tolist(), edges.dst.tolist()) == ([0], [1])
    assert edges.kind.tolist() == [EdgeKind.INFERRED]
    assert (edges.form.tolist(), edges.lag.tolist()) == ([EdgeForm.FINISH_START], [0])


def test_of_rows_on_one_stream_the_last_is_enough():
    t = TraceBuilder()
    for name in ("first", "second"):
        t.comp(name, stream=1)
    middle = t.comp("middle", deps=[0, 1])
    t.comp("last", deps=[middle])
    edges = with_bridging_edges(t.build(), np.array([True, True, False, True])).edges
    assert (edges.src.tolist(), edges.dst.tolist()) == ([1], [2])


@pytest.mark.parametrize(
    ("goes_on", "bridge"),
    [(EdgeForm.START_START, EdgeForm.START_START), (EdgeForm.FINISH_START, EdgeForm.FINISH_START)],
)
def test_work_launched_by_a_caller_waits_for_its_start_alone(goes_on, bridge):
    """What a caller calls is over after it, so its end says little; the end of other rows does."""
    t = TraceBuilder()
    host = t.comp("host", is_cpu_op=True, tid=1)
    inner = t.comp("inner", is_cpu_op=True, tid=1)
    kernel = t.comp("kernel", deps=[host])
    t.comp("last kernel", deps=[kernel])
    t.edge(host, inner, EdgeKind.CALL, form=goes_on)
    edges = with_bridging_edges(t.build(), np.array([True, True, False, True])).edges
    bridges = edges.where(edges.kind == EdgeKind.INFERRED)
    assert (bridges.src.tolist(), bridges.dst.tolist()) == ([0], [2])
    assert bridges.form.tolist() == [bridge]


FORMS = {
    EdgeForm.FINISH_START: (END, START),
    EdgeForm.START_START: (START, START),
    EdgeForm.FINISH_FINISH: (END, END),
}


def waits(trace):
    """(node, event) pairs of which the second can only come after the first: by trying all ways."""
    ids = trace.ids.tolist()
    after = {(i, e): set() for i in ids for e in (START, END)}
    for i in ids:
        after[i, START].add((i, END))
    edges = trace.edges
    for src, dst, form in zip(edges.src, edges.dst, edges.form, strict=True):
        a, b = FORMS[EdgeForm(int(form))]
        after[ids[src], a].add((ids[dst], b))
    lanes = {}
    for i, lane in zip(ids, trace.column("stream", -1).tolist(), strict=True):
        if lane >= 0 and lane in lanes:
            after[lanes[lane], END].add((i, START))
        lanes[lane] = i
    found = set()
    for begin in after:
        todo, seen = [begin], set()
        while todo:
            for event in after[todo.pop()] - seen:
                seen.add(event)
                todo.append(event)
        found |= {(begin, event) for event in seen}
    return found


@examples(50)
@given(st.integers(0, 10**6))
def test_kept_nodes_wait_for_each_other_as_before(seed):
    """Equal to the closure of all constraints, but for 'ends after another starts', which no edge says."""
    rng = Random(seed)
    t = TraceBuilder()
    for i in range(9):
        t.comp(f"n{i}", **({"stream": rng.choice([1, 2])} if rng.random() < 0.5 else {}))
        for parent in rng.sample(range(i), min(i, rng.choice([0, 1, 2]))):
            t.edge(parent, i, EdgeKind.DATA, form=rng.choice(list(FORMS)))
    whole = t.build()
    kept = np.array([rng.random() < 0.5 for _ in range(9)])
    part = with_bridging_edges(whole, kept)
    assert part.ids.tolist() == np.flatnonzero(kept).tolist()
    inside = set(part.ids.tolist())
    wanted = {p for p in waits(whole) if {p[0][0], p[1][0]} <= inside}
    found = waits(part)
    assert found <= wanted
    assert {p for p in wanted - found if (p[0][1], p[1][1]) != (START, END)} == set()


def test_a_trace_of_which_all_is_kept_is_itself():
    trace = linked("cnn_ddp_2").trace(0)
    assert with_bridging_edges(trace, np.ones(len(trace), bool)) is trace


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "cnn_ddp_2"])
def test_in_a_real_trace_what_could_be_reached_still_can(name):
    run = linked(name)
    part = run | Select(phases=("forward", "optimizer"))
    whole, some = run.trace(0), part.trace(0)
    kept = np.searchsorted(whole.ids, some.ids)
    assert 0 < len(some) < len(whole)
    assert isinstance(part, Run)
    assert (part.start(0) == run.start(0)[kept]).all()
    assert validate(part).errors == 0
    for row in (1, len(some) // 2):
        below = np.flatnonzero(whole.graph.descendants([int(kept[row])]))
        small_below = np.flatnonzero(some.graph.descendants([row]))
        assert set(some.ids[small_below]) == set(whole.ids[below]) & set(some.ids)
