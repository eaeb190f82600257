"""A trace as a graph of networkx: nodes by id, every edge with its kind, form and lag."""

from __future__ import annotations

import sys

import pytest

from chakrakit import EdgeKind, Edges, Trace
from chakrakit.errors import MissingExtra
from chakrakit.trace.model.trace import networkx_graph


def pair() -> Trace:
    columns = {"id": [7, 3], "name": ["a", "b"], "type": [4, 7], "duration_micros": [2, 0]}
    edges = Edges.of([0, 0], [1, 1], [EdgeKind.LAUNCH, EdgeKind.TENSOR], lag=[5, 0])
    return Trace.from_columns(columns, edges)


def test_nodes_have_names_types_and_durations_and_parallel_edges_stay() -> None:
    pytest.importorskip("networkx")
    graph = networkx_graph(pair())
    assert dict(graph.nodes(data=True)) == {
        7: {"name": "a", "type": "COMP_NODE", "duration_ns": 2000},
        3: {"name": "b", "type": "COMM_COLL_NODE", "duration_ns": 0},
    }
    assert list(graph.edges(data=True)) == [
        (7, 3, {"kind": "LAUNCH", "form": "START_START", "lag_ns": 5}),
        (7, 3, {"kind": "TENSOR", "form": "FINISH_START", "lag_ns": 0}),
    ]


def test_without_networkx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtra, match=r"to_networkx needs .*chakrakit\[networkx\]"):
        networkx_graph(pair())
