"""Arrows on a timeline: between lanes of a rank, between messages, and through a collective."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight.communication import (
    communication_arrows,
    dependency_arrows,
    joined_arrows,
    match_calls,
)
from chakrakit.insight.rank import rank_view
from chakrakit.trace.sets import Times, run_of
from support.timed_collectives import collectives


def test_dependencies_between_lanes_are_arrows_forward_in_time():
    t = ck.TraceBuilder()
    for name in "abcd":
        t.comp(name, stream=1)
    t.edge(0, 1, ck.EdgeKind.EVENT)  # on one lane
    t.edge(0, 2, ck.EdgeKind.EVENT)
    t.edge(3, 2, ck.EdgeKind.EVENT)  # backwards
    t.edge(0, 3, ck.EdgeKind.STREAM)  # an order, which nobody draws
    start = np.array([0, 10, 20, 30])
    run = run_of(ck.TraceSet([t.build()]), {0: Times(start, start + 5)}, tick_ps=1000)
    flows, free = dependency_arrows(rank_view(run, 0), np.array([0, 0, 1, 2], np.int32), 7)
    assert (flows.row.tolist(), flows.id.tolist()) == ([0, 2], [7, 7])
    assert (flows.begins.tolist(), flows.stops.tolist()) == ([True, False], [False, True])
    assert free == 8


def test_a_collective_is_one_arrow_through_its_ranks_as_they_come():
    matched = match_calls(collectives([[5], [0], [9]], [14]))
    flows = communication_arrows(matched, 100, np.ones(3, np.bool_))
    ends = {r: (f.id.tolist(), f.begins.tolist(), f.stops.tolist()) for r, f in flows.items()}
    assert ends == {
        0: ([100], [False], [False]),
        1: ([100], [True], [False]),  # it came first
        2: ([100], [False], [True]),
    }


def test_an_arrow_needs_two_ends_that_are_shown():
    matched = match_calls(collectives([[5], [0], [9]], [14]))
    assert communication_arrows(matched, 100, np.array([True, False, False])) == {}
    flows = communication_arrows(matched, 100, np.array([True, False, True]))
    assert (flows[0].begins.tolist(), flows[2].stops.tolist()) == ([True], [True])


def test_arrows_of_a_rank_are_joined():
    matched = match_calls(collectives([[5], [0]], [14]))
    flows = communication_arrows(matched, 1, np.ones(2, np.bool_))[0]
    assert joined_arrows([flows, flows]).id.tolist() == [1, 1]
