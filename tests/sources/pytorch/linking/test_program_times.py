"""A linked rank's times: waiting is in no own time, and corrected times are the schedule's."""

from __future__ import annotations

from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.timing import schedule

RECORDED = LinkOptions(as_recorded=True)


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
