"""A model recorded by our own collector on one GPU with NCCL, and the steps measured after edits."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.timing import schedule
from support.paths import DATA

FOLDER = DATA / "pytorch" / "mlp_ddp_nccl_1"


@pytest.fixture(scope="module")
def trace():
    options = LinkOptions(times=(FOLDER / "times_0.json.gz",), undilate=True)
    run, report = link([FOLDER], options)
    assert report.ranks[0].edge_violations == 0
    return run.trace(0)


def forward_kernels(trace):
    """The last kernel of every linear layer's forward, two steps of them."""
    names, start, end = trace.names.to_pylist(), trace.start_ns, trace.end_ns
    launch = trace.edges.kind == EdgeKind.LAUNCH
    caller, kernel = trace.edges.src[launch], trace.edges.dst[launch]
    thread = trace.column("tid", -1)
    linear = np.flatnonzero(np.isin(names, ("aten::linear",)))
    found = []
    for row in linear:
        inside = (
            (thread[caller] == thread[row])
            & (start[caller] >= start[row])
            & (end[caller] <= end[row])
        )
        found.append(kernel[inside][np.argmax(start[kernel[inside]])])
    return np.array(found)


def test_a_library_that_launched_nothing_waits_for_no_kernel(trace):
    """With a group of one, NCCL runs no kernel; its host call must not wait for the gradients."""
    host = trace.column("is_cpu_op").astype(bool)
    tensor = trace.edges.kind == EdgeKind.TENSOR
    assert not (tensor & ~host[trace.edges.src] & host[trace.edges.dst]).any()


def test_slower_kernels_give_the_measured_step(trace):
    measured = json.loads((FOLDER / "measured.json").read_text())["edits"]
    kernels = forward_kernels(trace)
    assert len(kernels) == 2 * measured[0]["count"]
    host, step = trace.column("is_cpu_op").astype(bool), trace.column("step", -1)
    for edit in measured:
        # Below 200 µs per layer this model is bound by the host, and the host's own time is a model.
        if edit["host_us"] or edit["gpu_us"] < 200:
            continue
        own = trace.own_ns.copy()
        np.add.at(own, kernels, edit["gpu_us"] * 1000)
        end = schedule(len(own), trace.edges, own).end
        last = [end[~host & (step == s)].max() for s in np.unique(step[step >= 0])]
        predicted = float(np.diff(last).mean()) / 1e6
        assert predicted == pytest.approx(edit["step_ms_back_to_back"], rel=0.05)


@pytest.mark.parametrize(("wanted_ms", "more"), [(7.0, True), (8.0, True), (13.0, False)])
def test_recording_cost_is_scaled_to_the_step_timed_without_it(wanted_ms, more):
    """By what the recording shows alone, the step is 9 ms."""
    overhead = Overhead(step_ns=round(wanted_ms * 1e6))
    options = LinkOptions(times=(FOLDER / "times_0.json.gz",), undilate=True, overhead=overhead)
    _, report = link([FOLDER], options)
    found = report.ranks[0].steps[-1]["scheduled_period_ns"]
    assert found == pytest.approx(overhead.step_ns, rel=0.02)
    assert (report.ranks[0].overhead_factor > 1) == more
