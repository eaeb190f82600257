"""What captures, XLA and serving engines add to the nodes."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.linking.nodes import to_trace


@pytest.fixture
def replayed(recording):
    """A product whose capture launched twice; its replay runs a short kernel and a long one."""
    recording.call("cudaStreamBeginCapture", 0, 2, corr=1)
    recording.op("aten::mm", 10, 10, reads=(1, 2), writes=(3,))
    recording.events[-1]["args"] |= {
        "Input Dims": [[4, 4], [4, 4]],
        "Input type": ["float", "float"],
    }
    for corr in (2, 3):
        recording.call("cudaLaunchKernel", 10 + corr, 1, corr=corr)
    recording.call("cudaStreamEndCapture", 25, 2, corr=4)
    recording.call("cudaGraphLaunch", 30, 3, corr=5)
    recording.kernel("short", 40, 3, corr=5, **{"graph node id": 1})
    recording.kernel("long", 44, 9, corr=5, **{"graph node id": 2})
    return to_trace(recording.link(), 0)


def told(trace, column, none):
    names = trace.names.to_pylist()
    return {n: v for n, v in zip(names, trace.column(column, none), strict=True) if v != none}


def test_replayed_kernels_have_the_operator_and_shapes_of_their_capture(replayed):
    assert told(replayed, "operator", "") == {"short": "aten::mm", "long": "aten::mm"}
    assert told(replayed, "inputs_shapes", "")["long"] == "[[4, 4], [4, 4]]"


def test_the_work_of_a_call_is_at_its_longest_kernel_alone(replayed):
    """2 · 4³ FLOPs; the operator that was only captured ran nothing itself, but counts there too."""
    work = told(replayed, "num_ops", 0)
    assert "short" not in work
    assert work["long"] == 2 * 4**3


def test_xla_s_kernels_say_their_instruction(recording):
    recording.op("a", 0, 5)
    recording.kernel(
        "fusion", 10, 5, corr=7, hlo_op="dot.3", hlo_shapes="[[4]]", hlo_name="jit(f)/dot"
    )
    trace = to_trace(recording.link(), 0)
    assert told(trace, "operator", "") == {"fusion": "dot.3"}
    assert told(trace, "module", "") == {"fusion": "jit(f)/dot"}


def test_a_serving_step_says_what_was_in_its_batch(recording):
    recording.op("step[DECODE bs=8]", 0, 50)
    recording.op("aten::mm", 10, 10)
    trace = to_trace(recording.link(), 0)
    assert told(trace, "batch_tokens", -1) == {"step[DECODE bs=8]": 8}
    assert told(trace, "generation_requests", -1) == {"step[DECODE bs=8]": 8}
