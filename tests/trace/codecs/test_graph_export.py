"""Graphs for other tools: every edge is there, every name is escaped, the selection is what was asked."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from chakrakit import CollectiveType, EdgeKind, Edges, Trace, TraceBuilder
from chakrakit.errors import ChakraError, ConfigError
from chakrakit.trace.codecs import Exported, Selection, export

NS = {"g": "http://graphml.graphdrawing.org/xmlns"}
NAME = 'a <b> & "c" \\ d\n\x01\u00e9'


def small() -> Trace:
    t = TraceBuilder()
    a = t.comp(NAME, duration_ns=1_500)
    b = t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], ctrl_deps=[a])
    c = t.comp("gemm", deps=[b])
    t.edge(a, c, EdgeKind.LAUNCH, lag_ns=-7)
    return t.build()


def graphml(path: Path) -> tuple[dict[str, dict[str, str]], list[tuple[str, ...]]]:
    root = ElementTree.parse(path).getroot()
    nodes = {
        n.get("id", ""): {d.get("key", ""): d.text or "" for d in n}
        for n in root.iterfind(".//g:node", NS)
    }
    edges = [
        (e.get("source", ""), e.get("target", ""), *(d.text or "" for d in e))
        for e in root.iterfind(".//g:edge", NS)
    ]
    return nodes, edges


def test_graphml_has_all_edges_with_their_kinds(tmp_path: Path) -> None:
    assert export(small(), tmp_path / "t.graphml") == Exported(3, 4, 0)
    nodes, edges = graphml(tmp_path / "t.graphml")
    assert edges == [
        ("n0", "n1", "data", "finish_start", "false"),
        ("n0", "n1", "ctrl", "finish_start", "true"),
        ("n1", "n2", "data", "finish_start", "false"),
        ("n0", "n2", "launch", "start_start", "-7", "false"),
    ]
    assert nodes["n0"]["node_name"] == NAME.replace("\x01", "\ufffd")
    assert nodes["n1"]["node_comm_size"] == "64"
    assert nodes["n0"]["node_duration_ns"] == "1500"
    assert "node_comm_size" not in nodes["n0"]


def test_dot_quotes_what_names_hold(tmp_path: Path) -> None:
    export(small(), tmp_path / "t.dot")
    text = (tmp_path / "t.dot").read_text()
    assert r'n0 [label="0 a <b> & \"c\" \\ d\n' in text
    assert text.count("->") == 4
    assert 'n0 -> n1 [label="ctrl", style=dashed];' in text
    assert 'n0 -> n2 [label="launch start_start +-7ns"];' in text
    assert text.count("{") == text.count("}") == 1


def chain(n: int) -> Trace:
    rows = np.arange(n)
    trace = Trace.from_columns({"id": rows + 10, "name": rows.astype(str), "type": 4 + rows % 4})
    return trace.with_edges(Edges.of(rows[:-1], rows[1:]))


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(around=15, hops=1), [14, 15, 16]),
        (Selection(around=15, hops=0), [15]),
        (Selection(around=10, hops=99), list(range(10, 20))),
        (Selection(types=("COMM_COLL_NODE",)), [13, 17]),
        (Selection(types=("comp", "COMM_SEND")), [10, 11, 14, 15, 18, 19]),
        (Selection(name="^[37]$"), [13, 17]),
        (Selection(around=15, hops=2, types=("COMM_COLL_NODE",)), [13, 17]),
        (Selection(name="nothing like it"), []),
    ],
)
def test_a_selection_takes_what_meets_all_of_it(
    tmp_path: Path, selection: Selection, ids: list[int]
) -> None:
    export(chain(10), tmp_path / "t.graphml", selection)
    nodes, edges = graphml(tmp_path / "t.graphml")
    assert list(nodes) == [f"n{i}" for i in ids]
    assert len(edges) == sum(i + 1 in ids for i in ids)


def test_dangling_dependencies_are_counted_and_equal_ids_told_apart(tmp_path: Path) -> None:
    trace = Trace.from_columns({"id": [5, 5], "name": ["a", "b"], "data_deps": [[77], [5]]})
    assert export(trace, tmp_path / "t.graphml") == Exported(2, 1, 1)
    nodes, edges = graphml(tmp_path / "t.graphml")
    assert list(nodes) == ["n0", "n1"]
    assert edges[0][:2] == ("n0", "n1")


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    for selection, problem in (
        (Selection(around=99), "no node has id 99"),
        (Selection(types=("GEMM",)), "'GEMM' is not a node type"),
        (Selection(name="("), "not a regular expression"),
    ):
        with pytest.raises(ChakraError, match=problem):
            export(chain(3), tmp_path / "t.dot", selection)
    with pytest.raises(ConfigError, match=r"use \.graphml or \.dot"):
        export(chain(3), tmp_path / "t.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    trace = chain(30_000)
    _ = trace.edges
    tracemalloc.start()
    export(trace, tmp_path / "t.graphml")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "t.graphml").stat().st_size > 10_000_000
    assert peak < 8_000_000
    assert re.search(r"</graphml>\s*$", (tmp_path / "t.graphml").read_text()[-40:])
