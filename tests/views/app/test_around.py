"""The graph around a node, from left to right."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.trace.sets import Times, run_of


def test_the_graph_around_a_node_goes_from_left_to_right(client, pipeline):
    ask = client(pipeline)
    trace = pipeline.trace(0)
    busiest = int(np.argmax(np.bincount(trace.edges.dst, minlength=len(trace))))
    for hops in (1, 2, 4):
        graph = ask("around", rank=0, row=busiest, hops=hops)
        column = {n["row"]: n["column"] for n in graph["nodes"]}
        assert column[busiest] == 0
        assert all(column[e["from"]] < column[e["to"]] for e in graph["edges"])
        near = {p.row for p, _ in trace[busiest].parents}
        assert near <= set(column) or graph["hidden"]
        assert len(column) <= 1 + 2 * hops * 12


def test_a_node_that_is_reached_twice_stands_after_all_it_needs(client):
    """d needs a and c, which needs b, which needs a: seen from a, d is three columns on."""
    t = ck.TraceBuilder()
    a = t.comp("a", stream=0)
    b = t.comp("b", stream=0, deps=[a])
    c = t.comp("c", stream=0, deps=[b])
    t.comp("d", stream=0, deps=[a, c])
    times = Times(np.arange(4) * 10, np.arange(4) * 10 + 5)
    ask = client(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000))
    graph = ask("around", rank=0, row=a, hops=3)
    assert {n["name"]: n["column"] for n in graph["nodes"]} == {"a": 0, "b": 1, "c": 2, "d": 3}
    near = ask("around", rank=0, row=a, hops=1)
    assert [(e["from"], e["to"], e["edge"]) for e in near["edges"]] == [
        (0, 1, "data"),
        (0, 3, "data"),
    ]
    assert near["hidden"] == 0
