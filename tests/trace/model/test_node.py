"""A node is a view of a row."""

from __future__ import annotations

from chakrakit import CollectiveType, EdgeKind, Trace, TraceBuilder


def small() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1500, start_ns=2001, num_ops=10)
    b = t.collective("sync", CollectiveType.ALL_GATHER, 64, deps=[a], pg_name="2")
    t.edge(a, b, EdgeKind.CTRL)
    return t.build()


def test_a_node_says_what_it_is() -> None:
    node = small().node(1)
    assert (node.id, node.name, node.type, node.collective) == (
        1,
        "sync",
        "COMM_COLL_NODE",
        "ALL_GATHER",
    )
    assert node.attributes == {"is_cpu_op": False, "comm_type": 2, "comm_size": 64, "pg_name": "2"}
    assert repr(node) == "Node(1 'sync' COMM_COLL_NODE)"
    first = small().node(0)
    assert (first.start_ns, first.duration_ns, first.collective) == (2001, 1500, None)
    assert first.get("pg_name", "none") == "none"
    assert first.get("no_such") is None


def test_a_node_knows_its_neighbours_by_edge() -> None:
    trace = small()
    assert trace[1].parents == [(trace[0], EdgeKind.DATA), (trace[0], EdgeKind.CTRL)]
    assert trace[0].children == [(trace[1], EdgeKind.DATA), (trace[1], EdgeKind.CTRL)]
    assert trace[0].parents == []


def test_a_type_the_schema_does_not_have_is_shown_by_number() -> None:
    node = Trace.from_columns({"name": ["x"], "type": [42], "comm_type": [77]})[0]
    assert (node.type, node.collective) == ("NODE_TYPE_42", "COLLECTIVE_77")
