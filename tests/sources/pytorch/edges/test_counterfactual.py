"""Change the trace as the program was changed, and the step time that was measured comes out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.timing import schedule
from support.paths import DATA

MODULES = {
    "gpt2_124m_b8_s1024": ("aten::addmm", "aten::linear"),
    "resnet50_b128": ("aten::conv2d", "aten::linear"),
}


class Edited:
    """A two-pass trace whose forward linear and convolution modules can be slowed."""

    def __init__(self, folder, names, undilate):
        options = LinkOptions(times=(folder / "kineto_only.json.gz",), undilate=undilate)
        run, _ = link([folder / "et.json.gz", folder / "kineto.json.gz"], options)
        self.trace = run.trace(0)
        own = self.trace.column("own_ns", -1)
        self.own = np.where(own >= 0, own, self.trace.duration_ns)
        self.host = self.trace.column("is_cpu_op").astype(bool)
        self.step = self.trace.column("step", -1)
        self.kernels, self.leaves = self._modules(names)

    def _modules(self, names):
        """Last kernel and last host row of every outermost module operator on the main thread."""
        t = self.trace
        tid, start, end = t.column("tid", -1), t.start_ns, t.end_ns
        main = tid[t.names.to_pylist().index("ProfilerStep#4")]
        rows = np.flatnonzero((tid == main) & np.isin(t.names.to_pylist(), names))
        outer = [r for i, r in enumerate(rows) if i == 0 or end[r] > end[rows[:i]].max()]
        on_main = np.flatnonzero(tid == main)
        launch = t.edges.kind == EdgeKind.LAUNCH
        caller, kernel = t.edges.src[launch], t.edges.dst[launch]
        mine = tid[caller] == main
        kernels, leaves = [], []
        for row in outer:
            inside = mine & (start[caller] >= start[row]) & (end[caller] <= end[row])
            kernels.append(kernel[inside][np.argmax(start[kernel[inside]])])
            leaves.append(on_main[np.searchsorted(start[on_main], end[row]) - 1])
        return np.array(kernels), np.array(leaves)

    def step_ms(self, gpu_us=0, host_us=0):
        """Mean period of the two steps on the device."""
        own = self.own.copy()
        np.add.at(own, self.kernels, gpu_us * 1000)
        np.add.at(own, self.leaves, host_us * 1000)
        end = schedule(len(own), self.trace.edges, own).end
        orphan = self.trace.column("orphan", False).astype(bool)
        ends = [end[orphan].max()] + [end[~self.host & (self.step == s)].max() for s in (4, 5)]
        return float(np.diff(ends).mean()) / 1e6


@pytest.fixture(params=list(MODULES), scope="module")
def case(request):

    data = DATA / "pytorch"
    measured = json.loads((data / "counterfactual.json").read_text())["cases"][request.param]
    edited = Edited(data / request.param, MODULES[request.param], undilate=True)
    return request.param, edited, measured["edits"]


def test_the_edit_touches_as_many_modules_as_the_program_did(case):
    _, edited, edits = case
    assert len(edited.kernels) == 2 * edits[0]["count"]


def test_slower_kernels_give_the_measured_step(case):
    _, edited, edits = case
    for e in edits:
        if e["host_us"] == 0:
            assert edited.step_ms(gpu_us=e["gpu_us"]) == pytest.approx(
                e["step_ms_back_to_back"], rel=0.05
            )


def test_a_slower_host_gives_the_measured_step(case):
    """What the host takes without recording is a model; ResNet-50's own edits put it at 21 and 26 ms."""
    _, edited, edits = case
    for e in edits:
        if e["gpu_us"] == 0:
            assert edited.step_ms(host_us=e["host_us"]) == pytest.approx(
                e["step_ms_back_to_back"], rel=0.2
            )


@pytest.mark.parametrize("name", list(MODULES))
def test_two_passes_unedited_give_the_period_that_was_recorded(data, name):
    folder = data / name
    options = LinkOptions(times=(folder / "kineto_only.json.gz",), as_recorded=True)
    _, report = link([folder / "et.json.gz", folder / "kineto.json.gz"], options)
    (rank,) = report.ranks
    assert len(rank.steps) == 2
    assert rank.orphans > 0
    assert rank.host_ops.linked == rank.host_ops.in_
    for step in rank.steps:
        assert step["scheduled_period_ns"] == pytest.approx(step["period_ns"], rel=0.03)


@pytest.mark.parametrize("name", list(MODULES))
def test_kernels_times_ten_and_times_nothing(data, name):
    trace = link([data / name / "et.json.gz", data / name / "kineto.json.gz"])[0].trace(0)
    own = trace.column("own_ns", -1)
    own = np.where(own >= 0, own, trace.duration_ns)
    device = ~trace.column("is_cpu_op").astype(bool)
    slow = schedule(len(trace), trace.edges, np.where(device, own * 10, own))
    assert slow.makespan >= 10 * own[device].sum()
    free = schedule(len(trace), trace.edges, np.where(device, 0, own))
    host = trace.column("tid", -1)
    leaves = np.isin(host, np.unique(host[host >= 0]))
    assert free.makespan > 0.3 * schedule(len(trace), trace.edges, own).makespan
    assert leaves.any()
