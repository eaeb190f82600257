"""One rank's trace as replay reads it."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.replayer.recording import Recording


@pytest.fixture
def seen():
    """A host row of 100 ns with another inside it, one on another thread, and a kernel and a collective."""
    t = ck.TraceBuilder()
    t.comp("outer", is_cpu_op=True, tid=1, start_ns=1000, duration_ns=100_000, op_schema="a::b()")
    inner = t.comp("inner", is_cpu_op=True, tid=1, start_ns=2000, duration_ns=50_000)
    t.comp("beside", is_cpu_op=True, tid=2, start_ns=2000, duration_ns=50_000)
    kernel = t.comp("gemm", stream=7, start_ns=5000, duration_ns=7)
    t.edge(inner, kernel, ck.EdgeKind.LAUNCH)
    comm = t.collective(
        "nccl", ck.CollectiveType.ALL_REDUCE, 8, stream=8, start_ns=6000, duration_ns=3, pg_name="g"
    )
    t.edge(inner, comm, ck.EdgeKind.LAUNCH)
    return Recording(3, t.build())


def test_rows_are_nested_by_time_on_their_thread(seen):
    assert seen.parents == [-1, 0, -1, -1, -1]
    assert seen.order[:2] == [0, 1]
    assert seen.threads[:3] == [1, 1, 2]


def test_what_ran_on_the_device_and_who_launched_it(seen):
    assert seen.host == [True, True, True, False, False]
    assert not seen.on_host_only
    assert seen.launched == {1: [3, 4]}
    assert (dict(seen.kernels), seen.kernel_ns) == ({"gemm": 1, "nccl": 1}, 10)
    assert seen.main_device == "cuda"


def test_communication_belongs_to_those_who_issued_it(seen):
    assert seen.issuers == {4: 1}
    assert seen.comm_rows == {1: [4], 0: [4]}
    assert seen.group_names == [None, None, None, None, "g"]


def test_attributes_are_read_by_row(seen):
    assert seen.schemas[:2] == ["a::b()", ""]
    assert seen.number("comm_size", 4, -1) == 8
    assert seen.place(3) == "rank 3, node 3 ('gemm')"


def recorded(**attributes):
    t = ck.TraceBuilder()
    t.comp("op", is_cpu_op=True, **attributes)
    return Recording(0, t.build())


def test_arguments_are_parallel_lists_and_what_is_missing_is_empty():
    given = recorded(inputs_values="[1, [2]]", inputs_shapes="[[]]", inputs_types='["Int"]')
    found = given.arguments(0, "inputs")
    assert len(found) == 2
    assert found.item(0) == (1, [], "Int", [])
    assert found.item(1) == ([2], [], "", [])
    assert len(given.arguments(0, "outputs")) == 0


@pytest.mark.parametrize(
    ("text", "said"), [("[1", "is not a list of JSON"), ("{}", "is not a list")]
)
def test_arguments_that_are_no_list_are_refused(text, said):
    with pytest.raises(TraceError, match=f"rank 0, node 0 .*: inputs_values {said}"):
        recorded(inputs_values=text).arguments(0, "inputs")
