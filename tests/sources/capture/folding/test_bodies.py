"""A recording as a trace: nodes by the vocabulary, edges from storages, waits and streams."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.folding.bodies import collective_name, trace_of
from chakrakit.sources.capture.recording import CommCall
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.memory import allocations_of
from chakrakit.trace.model import CollectiveType as C
from chakrakit.trace.model import EdgeKind, NodeType


@pytest.fixture
def traced(recorded):
    def of(*ops, **more):
        return trace_of(recorded(*ops, **more), {"0": "world"}, lambda comm: comm.peer)

    return of


def edges(trace):
    found = zip(trace.edges.src.tolist(), trace.edges.dst.tolist(), trace.edges.kind, strict=True)
    return [(a, b, EdgeKind(k).name) for a, b, k in found]


def test_a_reader_follows_the_last_writer_of_its_storage(traced):
    """Views run ahead on the host and hold up nobody."""
    trace = traced(
        ("aten::mm", {"writes": [1]}),
        ("aten::view", {"reads": [1], "writes": [1]}),
        ("aten::add", {"reads": [1], "writes": [2]}),
        ("aten::mm", {"writes": [1]}),
        ("aten::add", {"reads": [1, 2]}),
    )
    assert edges(trace) == [(0, 2, "TENSOR"), (3, 4, "TENSOR"), (2, 4, "TENSOR")]
    assert trace.column("is_cpu_op").tolist() == [False, True, False, False, False]


def test_work_is_the_device_s_and_the_optimizer_s_is_its_own_kind(traced):
    trace = traced(("aten::mm", {}), ("aten::add", {"phase": 3}), ("aten::view", {}))
    first, second, view = (trace[i] for i in range(3))
    assert (first.get("num_ops"), first.get("tensor_size"), first.get("op_type")) == (
        100,
        16,
        "matmul",
    )
    assert (second.get("op_type"), second.get("phase")) == ("optimizer", "optimizer")
    assert (view.get("num_ops"), view.get("op_type")) == (None, None)


def test_modules_give_layers_and_micro_batches_are_told_where_there_are_any(traced):
    trace = traced(("aten::mm", {"module": 1, "micro_batch": 2}), ("aten::mm", {}))
    assert (trace[0].get("module"), trace[0].get("layer")) == ("layers.3.mlp", 3)
    assert (trace[1].get("module"), trace[1].get("layer")) == (None, None)
    assert [trace[i].get("micro_batch") for i in range(2)] == [2, None]


def test_a_collective_is_named_by_its_role_and_a_message_by_both_ends(traced):
    trace = traced(
        ("c10d::allreduce_", {"comm": CommCall(C.ALL_REDUCE, "0", 8, 8, "float32")}),
        ("c10d::send", {"comm": CommCall(words.SEND, "0", 4, 4, "float32", peer=3, tag=7)}),
        ("c10d::recv_", {"comm": CommCall(words.RECV, "0", 4, 4, "float32", peer=1)}),
        rank=2,
    )
    reduce, send, receive = (trace[i] for i in range(3))
    assert trace.types.tolist() == [
        NodeType.COMM_COLL_NODE,
        NodeType.COMM_SEND_NODE,
        NodeType.COMM_RECV_NODE,
    ]
    assert (reduce.get("pg_name"), reduce.get("comm_type"), reduce.get("comm_size")) == (
        "world",
        C.ALL_REDUCE,
        8,
    )
    assert (send.get("comm_src"), send.get("comm_dst"), send.get("comm_tag")) == (2, 3, 7)
    assert (receive.get("comm_src"), receive.get("comm_dst")) == (1, 2)


def test_what_was_held_when_the_step_began_counts_with_its_first_node(traced):
    trace = traced(("aten::mm", {"alloc": 5}), ("aten::mm", {"free": 3}), start_bytes=100)
    assert [trace[i].get("mem_alloc") for i in range(2)] == [105, None]
    # what was held before are weights as well as anything else: it is not called activations
    assert allocations_of(trace).by_kind() == {"other": 105}
    assert [trace[i].get("mem_free") for i in range(2)] == [None, 3]


@pytest.mark.parametrize(
    ("kind", "name"), [(C.ALL_TO_ALL, "ALL_TO_ALL"), (words.SEND, "SEND"), (words.RECV, "RECV")]
)
def test_kinds_have_names(kind, name):
    assert collective_name(kind) == name
