"""A linked rank's times: waiting is nobody's work, and of gloo's records the transfer alone is left."""

from __future__ import annotations

import numpy as np

from chakrakit.sources.pytorch.linking.linker import LinkOptions, link
from chakrakit.sources.pytorch.match.transfers import transfer_times
from chakrakit.sources.pytorch.read.kineto import read_kineto
from chakrakit.trace.timing.scheduler import schedule

RECORDED = LinkOptions(as_recorded=True)


def test_the_transfer_is_what_lies_between_the_copies_of_a_device(recording):
    """gloo:all_reduce from 100 to 1,000 µs: a wait for a copy until 150, a copy back from 900."""
    recording.op("gloo:all_reduce", 100, 900, tid=5)
    recording.call("cudaStreamSynchronize", 110, 40, tid=5, corr=1)
    recording.call("cudaMemcpyAsync", 900, 50, tid=5, corr=2)
    seen = read_kineto(recording.kineto_json().encode(), "kineto.json")
    start, end = transfer_times(seen)
    row = int(np.flatnonzero(seen.end - seen.start == 900_000)[0])
    assert (end[row] - start[row], start[row] - seen.start[row]) == (750_000, 50_000)


def test_the_host_s_own_operators_inside_a_record_leave_it_whole(recording):
    recording.op("gloo:recv", 100, 900, tid=5)
    recording.op("aten::add", 300, 100, tid=5)
    seen = read_kineto(recording.kineto_json().encode(), "kineto.json")
    start, end = transfer_times(seen)
    assert (start == seen.start).all()
    assert (end == seen.end).all()


def test_waiting_is_in_no_row_s_own_time(data):
    """What runs around autograd's thread, synchronizations and full queues works itself only a little."""
    trace = link([data / "gpt2_124m_b8_s1024"], RECORDED)[0].trace(0)
    names = trace.names.to_pylist()
    for name in ("ProfilerStep#4", "## backward ##"):
        row = names.index(name)
        assert trace.own_ns[row] < 0.02 * trace.duration_ns[row], name


def test_corrected_times_are_those_of_the_schedule_and_nest(data):
    trace = link([data / "resnet50_b128"])[0].trace(0)
    timed = schedule(len(trace), trace.edges, trace.own_ns)
    assert (timed.start == trace.start_ns - trace.start_ns.min()).all()
    step = trace.names.to_pylist().index("ProfilerStep#4")
    tid = trace.column("tid", -1)
    inside = (tid == tid[step]) & (trace.column("step", -1) == 4)
    assert trace.end_ns[inside].max() <= trace.end_ns[step] + 2_000
