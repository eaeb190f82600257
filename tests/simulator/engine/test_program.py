"""One body as the arrays of a simulation: kinds, lanes, launches, shares of the device, storage."""

import pytest

from chakrakit import CollectiveType, EdgeKind, NodeType, TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.simulator.engine import COMM, COMPUTE
from chakrakit.simulator.engine.program import (
    ORDERED,
    PLAIN,
    POOL,
    QUEUE_ONLY,
    STORAGE,
    read_program,
)


def lanes(program):
    """What kind of lane each row runs on; None for a row that starts whenever it can."""
    return [None if lane < 0 else int(program.lane_kind[lane]) for lane in program.lane]


def test_rows_with_a_stream_or_thread_run_in_order_and_work_without_shares_a_pool():
    t = TraceBuilder()
    t.comp("kernel", stream=7)
    t.comp("host", is_cpu_op=True, tid=1)
    t.comp("free kernel")
    t.comp("free host", is_cpu_op=True)
    t.collective("sum", CollectiveType.ALL_REDUCE, 8)
    t.comp("next kernel", stream=7)
    program = read_program(t.build())
    assert program.kind.tolist() == [COMPUTE, PLAIN, COMPUTE, PLAIN, COMM, COMPUTE]
    assert lanes(program) == [ORDERED, ORDERED, POOL, POOL, None, ORDERED]
    assert program.lane[0] == program.lane[5]
    assert len({*program.lane[:4].tolist()}) == 4
    assert len(program) == 6


def test_stream_edges_hold_the_order_of_streams():
    t = TraceBuilder()
    first, second = t.comp("a", stream=1), t.comp("b", stream=1)
    t.edge(first, second, EdgeKind.STREAM)
    assert lanes(read_program(t.build())) == [QUEUE_ONLY, QUEUE_ONLY]


def test_thread_edges_hold_the_order_of_threads():
    t = TraceBuilder()
    first, second = (t.comp(name, is_cpu_op=True, tid=1) for name in "ab")
    t.edge(first, second, EdgeKind.THREAD)
    assert lanes(read_program(t.build())) == [None, None]


def test_a_kernel_knows_its_launcher():
    t = TraceBuilder()
    host = t.comp("launch", is_cpu_op=True, tid=1)
    t.edge(host, t.comp("kernel", stream=0), EdgeKind.LAUNCH)
    assert read_program(t.build()).launch_of.tolist() == [-1, 0]


def test_shares_are_millionths_of_the_device():
    """Compute uses the whole device unless it says less; communication none of it unless it says more."""
    t = TraceBuilder()
    t.comp("whole")
    t.comp("quarter", device_share=0.25, waves=3)
    t.collective("sum", CollectiveType.ALL_REDUCE, 8)
    t.collective("sum", CollectiveType.ALL_REDUCE, 8, device_share=0.5)
    program = read_program(t.build())
    assert program.share.tolist() == [1_000_000, 250_000, 0, 500_000]
    assert program.waves.tolist() == [1, 3, 1, 1]


def test_reads_and_writes_of_stores():
    t = TraceBuilder()
    t.node("load", NodeType.MEM_LOAD_NODE, tensor_size=10, storage="disk")
    t.node("save", NodeType.MEM_STORE_NODE, tensor_size=20, storage="remote")
    t.node(
        "copy", NodeType.MEM_STORE_NODE, tensor_size=30
    )  # names no store: not a storage operation
    program = read_program(t.build())
    assert program.kind.tolist() == [STORAGE, STORAGE, PLAIN]
    assert program.stored.store == ["disk", "remote"]
    assert program.stored.size.tolist() == [10, 20]
    assert program.stored.writes.tolist() == [False, True]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        (
            {"device_share": 2.0},
            r"node 0 \('a'\): device_share is 2.0; it should be from 1e-6 to 1",
        ),
        ({"device_share": 0.0}, "device_share is 0.0"),
        ({"waves": 0}, "waves is 0; it should be 1 or more"),
    ],
)
def test_what_cannot_be_is_refused(attributes, said):
    t = TraceBuilder()
    t.comp("a", **attributes)
    with pytest.raises(TraceError, match=said):
        read_program(t.build())
