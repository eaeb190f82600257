"""Linked traces of a real GPU: their own step, edits that were measured, and times from a profile."""

import json
from functools import cache

import numpy as np
import pytest

from chakrakit import TraceSet
from chakrakit.simulator.engine import native
from chakrakit.simulator.results import simulate
from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.model import EdgeKind
from support import paths

DATA = paths.DATA / "pytorch"
MODULES = {
    "gpt2_124m_b8_s1024": ("aten::addmm", "aten::linear"),
    "resnet50_b128": ("aten::conv2d", "aten::linear"),
}
EDITS = json.loads((DATA / "counterfactual.json").read_text())["cases"]


@cache
def linked(name):
    """Operators and edges of one recording, times of two steps recorded without the observer."""
    options = LinkOptions(times=(DATA / name / "kineto_only.json.gz",), undilate=True)
    return link([DATA / name / "et.json.gz", DATA / name / "kineto.json.gz"], options)[0].trace(0)


def period_ms(trace, compute="measured"):
    """Mean of the two steps, from the last kernel of one to the last of the next."""
    end = simulate(TraceSet([trace]), "dgx-h200", compute=compute).outcome.end / 1e9
    device = ~trace.column("is_cpu_op").astype(bool)
    step, orphan = trace.column("step", -1), trace.column("orphan", False).astype(bool)
    ends = [end[orphan].max()] + [end[device & (step == s)].max() for s in (4, 5)]
    return float(np.diff(ends).mean())


def modules(trace, names):
    """Last kernel and last host row of every outermost module operator on the main thread."""
    tid, start, end, all_names = (
        trace.column("tid", -1),
        trace.start_ns,
        trace.end_ns,
        trace.names.to_pylist(),
    )
    main = tid[all_names.index("ProfilerStep#4")]
    rows = np.flatnonzero((tid == main) & np.isin(all_names, names))
    outer = [r for i, r in enumerate(rows) if i == 0 or end[r] > end[rows[:i]].max()]
    on_main = np.flatnonzero(tid == main)
    launch = trace.edges.kind == EdgeKind.LAUNCH
    caller, kernel = trace.edges.src[launch], trace.edges.dst[launch]
    kernels, leaves = [], []
    for row in outer:
        inside = (tid[caller] == main) & (start[caller] >= start[row]) & (end[caller] <= end[row])
        kernels.append(kernel[inside][np.argmax(start[kernel[inside]])])
        leaves.append(on_main[np.searchsorted(start[on_main], end[row]) - 1])
    return np.array(kernels), np.array(leaves)


def edited(trace, names, edit):
    own = trace.column("own_ns", -1)
    own = np.where(own >= 0, own, trace.duration_ns)
    kernels, leaves = modules(trace, names)
    np.add.at(own, kernels, edit["gpu_us"] * 1000)
    np.add.at(own, leaves, edit["host_us"] * 1000)
    return trace.with_columns({"own_ns": own})


@pytest.mark.parametrize("name", MODULES)
def test_measured_durations_give_the_recorded_span_back(name):
    trace = link([DATA / name / "et.json.gz", DATA / name / "kineto.json.gz"])[0].trace(0)
    out = native.run(TraceSet([trace]), native_machine())
    assert out.makespan_ps / 1000 == pytest.approx(
        trace.end_ns.max() - trace.start_ns.min(), rel=0.02
    )


def native_machine():
    from chakrakit.machines import load_machine

    return load_machine("dgx-h200")


@pytest.mark.parametrize("name", MODULES)
def test_the_step_that_was_measured_without_a_profiler_comes_out(name):
    assert period_ms(linked(name)) == pytest.approx(EDITS[name]["base_ms"], rel=0.02)


@pytest.mark.parametrize("name", MODULES)
def test_edits_that_were_run_come_out_as_measured(name):
    for edit in EDITS[name]["edits"]:
        bound = 0.05 if edit["host_us"] == 0 else 0.2  # the host's own time is a model
        found = period_ms(edited(linked(name), MODULES[name], edit))
        assert found == pytest.approx(edit["step_ms_back_to_back"], rel=bound)


@pytest.mark.parametrize("name", MODULES)
def test_the_h200_profile_predicts_the_step_from_the_graph(name):
    assert period_ms(linked(name), "h200") == pytest.approx(EDITS[name]["base_ms"], rel=0.08)
