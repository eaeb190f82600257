"""Graphs being replayed: rows in the order of the nodes, and the capture that fits."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.graphs import Capture, CapturedOperator, find_replays, name_rows
from chakrakit.sources.pytorch.read import Kind
from chakrakit.trace.model import EdgeKind
from support.rescheduled import kinds


def captured(*names, batch=-1, sorts=None):
    operators = [CapturedOperator(n, "", "", "", -1, -1, i, 0, 0) for i, n in enumerate(names)]
    return Capture(batch, "", operators, sorts or [Kind.KERNEL] * len(names))


@pytest.fixture
def replay(recording):
    """A step of three requests that launches a graph of two kernels, the second node first."""
    recording.op("step[DECODE bs=3]", 0, 20)
    recording.call("cudaGraphLaunch", 5, 3, corr=1)
    recording.kernel("triton_add_0", 30, 5, corr=1, **{"graph node id": 9})
    recording.kernel("gemm", 40, 5, corr=1, **{"graph node id": 4})
    return recording


def named(recording, *captures):
    rank = recording.link()
    replays = find_replays(rank.line, rank.names, rank.kineto, rank.device)
    found = name_rows(rank.line, rank.names, replays, captures)
    return {rank.names[r]: o.name for r, o in found.operators.items()}, found


def test_rows_are_in_the_order_in_which_nodes_were_made(replay):
    operators, found = named(replay, captured("aten::mm", "triton_add"))
    assert operators == {"gemm": "aten::mm", "triton_add_0": "triton_add"}
    assert (found.kernels, found.unmatched) == (2, 0)


def test_a_capture_of_another_length_or_kind_does_not_fit(replay):
    _, found = named(replay, captured("aten::mm"))
    assert (found.operators, found.unmatched) == ({}, 1)
    replay.kernel("Memcpy DtoD", 50, 5, corr=1, cat="gpu_memcpy", **{"graph node id": 12})
    _, found = named(replay, captured("a", "b", "c"))
    assert found.unmatched == 1


def test_names_of_generated_code_decide_between_equal_lengths(replay):
    wrong, right = captured("aten::mm", "triton_mul"), captured("aten::bmm", "triton_add")
    assert named(replay, wrong, right)[0]["gemm"] == "aten::bmm"


def test_the_smallest_capture_that_holds_the_batch_is_meant(replay):
    """Engines pad a batch of three to the next size that they captured."""
    sizes = [captured(f"of {n}", "triton_add", batch=n) for n in (1, 2, 4, 8)]
    assert named(replay, *sizes)[0]["gemm"] == "of 4"


def test_between_streams_of_one_replay_a_row_waits_for_what_ended_last(recording):
    recording.op("replay", 0, 20)
    recording.call("cudaGraphLaunch", 5, 3, corr=1)
    for i, (name, start, dur) in enumerate([("a", 30, 4), ("b", 35, 4), ("first", 40, 10)]):
        recording.kernel(name, start, dur, stream=7, corr=1, **{"graph node id": i + 1})
    recording.kernel("other", 51, 10, stream=8, corr=1, **{"graph node id": 4})
    recording.kernel("joined", 62, 5, stream=7, corr=1, **{"graph node id": 5})
    rank = recording.link()
    assert kinds(rank, EdgeKind.EVENT) == [("first", "other"), ("other", "joined")]
    assert rank.counts["graph_joins"] == 2


def test_a_replay_that_lacks_a_node_of_its_capture_is_aligned_by_generated_names(recording):
    """The tracer lost the first product of 100 nodes; every other one still gets its operator."""
    nodes = [f"triton_red_{i}" if i % 2 else f"aten::op{i}" for i in range(100)]
    recording.call("hipGraphLaunch", 0, 3, corr=1)
    for i, node in enumerate(nodes[1:]):
        name = node if node.startswith("triton") else "gemm"
        recording.kernel(name, 10 + 10 * i, 5, corr=1)
    operators, found = named(recording, captured(*nodes))
    assert (found.aligned, found.unmatched, len(found.operators)) == (1, 0, 99)
    assert operators["gemm"] == "aten::op98"
    _, found = named(recording, captured(*nodes[:90]))
    assert (found.aligned, found.unmatched) == (0, 1)
