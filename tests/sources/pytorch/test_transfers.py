"""Of a back end's records, what is the transfer and what copies around it."""

from __future__ import annotations

import numpy as np

from chakrakit.sources.pytorch.read import read_kineto
from chakrakit.sources.pytorch.timeline import transfer_times


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
