"""One rank's trace as replay reads it."""

from __future__ import annotations

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.recording import RecordedArguments, RecordedRows
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType, Trace

COMP, COLL = int(NodeType.COMP_NODE), int(NodeType.COMM_COLL_NODE)


@pytest.fixture
def seen():
    """outer holds inner, which launches a kernel; a call issues a collective of the device."""
    columns = {
        "name": ["outer", "inner", "kernel", "call", "reduce"],
        "type": [COMP, COMP, COMP, COMP, COLL],
        "start_time_ns": [0, 10_000, 20_000, 60_000, 70_000],
        "duration_ns": [50_000, 30_000, 5_000, 10_000, 40_000],
        "is_cpu_op": [True, True, False, True, False],
        "tid": [7, 7, None, 7, None],
        "op_schema": ["", "aten::mm(Tensor a) -> Tensor", None, "c10d::allreduce_()", None],
        "pg_name": [None, None, None, None, "tp"],
        "inputs_values": ["[3]", "{", "[]", "7", "[]"],
        "comm_size": [None, None, None, None, 64],
    }
    edges = Edges.of([1, 3], [2, 4], EdgeKind.LAUNCH, EdgeForm.START_START)
    return RecordedRows(2, Trace.from_columns(columns, edges))


def test_what_runs_inside_what_and_where(seen):
    assert seen.parents == [-1, 0, -1, -1, -1]
    assert (seen.host, seen.on_host_only) == ([True, True, False, True, False], False)
    assert seen.threads == [7, 7, 0, 7, 0]
    assert seen.order == [0, 1, 2, 3, 4]


def test_kernels_belong_to_who_launched_them(seen):
    assert seen.launched == {1: [2], 3: [4]}
    assert (dict(seen.kernels), seen.kernel_ns) == ({"kernel": 1, "reduce": 1}, 45_000)
    assert seen.main_device == "cuda"


def test_communication_belongs_to_who_issued_it(seen):
    assert seen.is_comm.tolist() == [False, False, False, False, True]
    assert (seen.issuers, seen.comm_rows) == ({4: 3}, {3: [4]})
    assert seen.group_names == [None, None, None, None, "tp"]
    assert (seen.number("comm_size", 4, -1), seen.number("comm_size", 0, -1)) == (64, -1)


def test_a_caller_that_was_written_down_counts_more_than_times():
    columns = {
        "name": ["a", "b"],
        "caller": [None, 0],
        "start_time_ns": [0, 100],
        "is_cpu_op": [True] * 2,
    }
    assert RecordedRows(0, Trace.from_columns(columns)).parents == [-1, 0]


def test_arguments_that_are_no_lists_are_named_with_their_node(seen):
    assert seen.arguments(0, "inputs").values == [3]
    assert len(seen.arguments(2, "outputs")) == 0
    with pytest.raises(
        TraceError, match=r"rank 2, node 1 \('inner'\): inputs_values is not a list of JSON"
    ):
        seen.arguments(1, "inputs")
    with pytest.raises(TraceError, match=r"node 3 \('call'\): inputs_values is not a list"):
        seen.arguments(3, "inputs")


def test_what_is_missing_of_an_argument_is_empty():
    assert RecordedArguments([5, 6], [[2]], ["Int", 3], []).item(0) == (5, [2], "Int", [])
    assert RecordedArguments([5, 6], [[2]], ["Int", 3], []).item(1) == (6, [], "", [])
