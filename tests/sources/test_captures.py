"""Graphs being captured: the launches between begin and end, with the operators they stand in."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.linking.rank import captures_of
from chakrakit.sources.pytorch.read import Kind


@pytest.fixture
def capture(recording):
    """One operator that launches a kernel and a copy while a graph is captured."""
    recording.op("capture_8_decode", 0, 60)
    recording.events[-1]["cat"] = "user_annotation"
    recording.call("cudaStreamBeginCapture", 1, 2, corr=1)
    recording.op("aten::mm", 10, 10)
    recording.events[-1]["args"] |= {"Input Dims": [[4, 8], [8, 2]]}
    recording.call("cudaLaunchKernel", 12, 3, corr=2)
    recording.call("cuLaunchKernel", 13, 1, corr=3)
    recording.call("cudaMemcpyAsync", 30, 2, corr=4)
    recording.call("cudaStreamEndCapture", 40, 2, corr=5)
    return recording


def test_a_capture_lists_its_launches_in_order_and_a_driver_s_inside_counts_once(capture):
    (found,) = captures_of(capture.link())
    assert found.kinds == [Kind.KERNEL, Kind.MEMCPY]
    assert [o.name for o in found.operators] == ["aten::mm", ""]
    assert found.operators[0].shapes == "[[4, 8], [8, 2]]"


def test_a_serving_engine_s_annotation_tells_the_batch(capture):
    (found,) = captures_of(capture.link())
    assert (found.batch, found.mode, len(found)) == (8, "decode", 2)


def test_what_ran_while_a_graph_was_captured_is_no_part_of_it(capture):
    """Another stream's kernel is in the file; what is captured runs only when it is replayed."""
    capture.launch(35, start=36, dur=5, corr=9, name="other stream")
    (found,) = captures_of(capture.link())
    assert len(found) == 2


def test_a_capture_that_never_ended_holds_what_follows(capture):
    capture.events = [e for e in capture.events if e["name"] != "cudaStreamEndCapture"]
    capture.call("cudaLaunchKernel", 50, 2, corr=6)
    (found,) = captures_of(capture.link())
    assert len(found) == 3


def test_a_capture_without_launches_is_none(recording):
    recording.call("cudaStreamBeginCapture", 0, 2, corr=1)
    recording.call("cudaStreamEndCapture", 10, 2, corr=2)
    assert captures_of(recording.link()) == []
