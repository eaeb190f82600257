"""Device events: what one stream recorded and another waited for."""

from __future__ import annotations

from chakrakit.trace.model import EdgeKind
from support.rescheduled import kinds, plan


def test_an_event_makes_one_stream_wait_for_another(recording):
    recording.op("a", 0, 60)
    recording.launch(1, start=10, dur=30, stream=7, corr=1, name="produce")
    recording.call("cudaEventRecord", 5, 1, corr=2)
    recording.call("cudaStreamWaitEvent", 8, 1, corr=3)
    recording.sync(
        "Stream Wait Event",
        8,
        1,
        stream=20,
        corr=3,
        wait_on_stream=-1,
        wait_on_cuda_event_record_corr_id=-1,
    )
    recording.launch(12, start=41, dur=5, stream=20, corr=4, name="consume")
    rank = recording.link()
    assert kinds(rank, EdgeKind.EVENT) == [("produce", "consume")]
    assert plan(rank, produce=100)["consume"][0] == 111
    assert plan(rank, without=EdgeKind.EVENT, produce=100)["consume"][0] < 111


def test_a_named_record_is_believed(recording):
    """Newer tracers say which record and stream a wait belongs to."""
    recording.op("a", 0, 90)
    recording.launch(1, start=10, dur=5, stream=7, corr=1, name="first")
    recording.call("cudaEventRecord", 4, 1, corr=2)
    recording.launch(6, start=16, dur=30, stream=7, corr=3, name="second")
    recording.call("cudaEventRecord", 9, 1, corr=4)
    recording.call("cudaStreamWaitEvent", 12, 1, corr=5)
    recording.sync(
        "Stream Wait Event",
        12,
        1,
        stream=20,
        corr=5,
        wait_on_stream=7,
        wait_on_cuda_event_record_corr_id=2,
    )
    recording.launch(14, start=24, dur=5, stream=20, corr=6, name="consume")
    assert kinds(recording.link(), EdgeKind.EVENT) == [("first", "consume")]
