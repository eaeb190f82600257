"""Programs as traces: columns by what a row is, names by layer, ranks bound to groups and peers."""

from __future__ import annotations

import numpy as np

from chakrakit.trace.model import EdgeKind, NodeType
from chakrakit.workloads.description import Mesh, Plan
from chakrakit.workloads.layers import BlockNode
from chakrakit.workloads.program import MeshBindings, StageProgram, TextTables, table_of, trace_of


def program(book: TextTables) -> StageProgram:
    """A product, a sum of its result, and a message of that to the next stage."""
    nodes = [
        BlockNode(
            "mlp.up", "matmul", flops=10, vector_ops=2, bytes=30, dtype="bf16", shapes="[[1,2]]"
        ),
        BlockNode("sum", "collective", comm_size=8, out_size=8, role="tp", dtype="bf16", alloc=5),
        BlockNode("send_forward", "send", comm_size=16, role="pp:1"),
    ]
    columns = dict(table_of(nodes, book, "forward").columns)
    columns["comm"] = np.array([-1, 0, -1])
    columns["layer"] = np.array([3, -1, -1])
    for name, values in {
        "micro_batch": [0, 0, 0],
        "chunk": [0, 0, 0],
        "stream": [0, 1, 6],
        "tag": [0, 0, 44],
    }.items():
        columns[name] = np.array(values)
    return StageProgram(0, columns, np.array([[0, 1]]), np.array([[1, 2]]))


def test_a_row_has_the_attributes_of_what_it_is() -> None:
    book = TextTables()
    trace = trace_of(program(book), book, {"pp:1": 5}, 1, "v1", {"held_kind": "kv_cache"})
    assert trace.names.to_pylist() == ["layers.3.mlp.up", "sum", "send_forward"]
    assert trace.types.tolist() == [
        NodeType.COMP_NODE,
        NodeType.COMM_COLL_NODE,
        NodeType.COMM_SEND_NODE,
    ]
    product, collective, message = (trace[row].attributes for row in range(3))
    assert (product["num_ops"], product["tensor_size"], product["op_type"]) == (12, 30, "matmul")
    assert product["layer"] == 3
    assert "comm_size" not in product
    assert (collective["pg_name"], collective["comm_size"], collective["mem_alloc"]) == ("tp", 8, 5)
    assert "num_ops" not in collective
    assert (message["comm_src"], message["comm_dst"], message["comm_tag"]) == (1, 5, 44)
    assert trace.metadata.version == "v1"


def test_data_and_order_are_edges_of_two_kinds() -> None:
    book = TextTables()
    edges = trace_of(program(book), book, {"pp:1": 5}, 1, "v1").edges
    assert (edges.src.tolist(), edges.dst.tolist()) == ([0, 1], [1, 2])
    assert edges.kind.tolist() == [EdgeKind.DATA, EdgeKind.CTRL]


def test_ranks_are_bound_to_their_groups_and_to_peers_of_the_first_ranks_names() -> None:
    ranks = MeshBindings(Mesh(Plan(tp=2, pp=2)), ["tp"], first_group=7)
    assert ranks.groups == {"7": [0, 1], "8": [2, 3]}
    bound = ranks.bind(np.array([0, 1]), 0, ["tp"], ["pp:1"])
    assert [dict(bound[r].groups) for r in (0, 1)] == [{"tp": "7"}, {"tp": "7"}]
    assert dict(bound[0].peers) == {}  # the body is its own
    assert dict(bound[1].peers) == {0: 1, 2: 3}
