"""A list of passes: what went in, what each did, and whether the times are still true."""

from __future__ import annotations

import numpy as np

from chakrakit import Binding, Times, TraceBuilder, TraceSet
from chakrakit.passes import Compact, Edit, Select
from chakrakit.passes.base import transform
from chakrakit.passes.base.pipeline import size_of
from chakrakit.trace.sets import run_of


def pair():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=1000, is_cpu_op=True, tid=1)
    t.comp("b", duration_ns=2000, deps=[a], stream=1)
    return t.build()


def test_nodes_count_for_every_rank_and_bodies_once():
    traces = TraceSet([pair(), pair().select([0])], {0: Binding(0), 1: Binding(0), 2: Binding(1)})
    size = size_of(traces)
    assert (size.ranks, size.bodies, size.nodes) == (3, 2, 5)


def test_a_transform_counts_what_went_in_and_came_out():
    after, done = transform(TraceSet([pair()]), [Edit(scale=2), Select(around=1, hops=0)])
    assert (done.before.nodes, done.after.nodes, done.times) == (2, 1, "none")
    assert [(a.spec, a.after.nodes) for a in done.applied] == [
        ("edit{scale=2}", 2),
        ("select{around=1, hops=0}", 1),
    ]
    assert done.card_passes == after.card.passes == ["edit{scale=2}", "select{around=1, hops=0}"]


def test_a_run_says_whether_its_times_are_kept():
    run = run_of(TraceSet([pair()]), {0: Times(np.array([0, 1000]), np.array([1000, 3000]))})
    assert transform(run, [Compact()])[1].times == "kept"
    assert transform(run, [Edit(scale=2)])[1].times == "dropped"


def test_no_passes_change_nothing():
    traces = TraceSet([pair()])
    after, done = transform(traces, [])
    assert after is traces
    assert done.applied == []
    assert done.before == done.after
