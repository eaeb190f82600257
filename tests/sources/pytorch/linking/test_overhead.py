"""What recording cost, as a recording shows it: the speed of its launches, what the tracer says of itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakrakit.sources.pytorch.linking.linker import link
from chakrakit.sources.pytorch.linking.overhead import Overhead, cost_seen
from chakrakit.sources.pytorch.linking.rank import rank_parts
from chakrakit.sources.pytorch.read.kineto import read_kineto


def test_slow_launches_tell_of_a_dear_recording():
    fast = cost_seen(np.full(9, 5_000), operators=100, values=0)
    slow = cost_seen(np.full(9, 8_500), operators=100, values=0)
    assert (fast.launch_ns, fast.call_ns) == (0, 0)
    assert (slow.launch_ns, slow.call_ns) == (18_375, 6_125)
    assert fast.operator_ns == slow.operator_ns == 1_000


def test_the_observer_costs_by_what_it_writes():
    few = cost_seen(np.full(9, 8_000), operators=100, values=1_000)
    many = cost_seen(np.full(9, 8_000), operators=100, values=2_000)
    assert (few.observer_ns, many.observer_ns) == (13_200, 26_400)
    assert cost_seen(np.empty(0, np.int64), operators=10, values=10).observer_ns > 0


def event(name, cat, start, duration, tid=1, **args):
    return {
        **{"ph": "X", "name": name, "cat": cat, "pid": 1 if tid else -1, "tid": tid},
        **{"ts": start, "dur": duration, "args": args},
    }


def recording(record="Activity Buffer Request"):
    """One step of two operators with a launch each; the tracer works for 500 us before the second."""
    return [
        event("ProfilerStep#0", "user_annotation", 0, 1_000),
        event("aten::a", "cpu_op", 10, 80),
        event("cudaLaunchKernel", "cuda_runtime", 20, 5, correlation=1),
        event("aten::b", "cpu_op", 100, 600),
        event(record, "overhead", 130, 500, tid=0),
        event("cudaLaunchKernel", "cuda_runtime", 640, 5, correlation=2),
        event("k", "kernel", 30, 10, tid=7, correlation=1, stream=7, device=0),
        event("k", "kernel", 650, 10, tid=7, correlation=2, stream=7, device=0),
    ]


def parts_of(events):
    data = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    return rank_parts(0, None, read_kineto(data, "kineto.json"))


@pytest.mark.parametrize(
    ("record", "removed_us"), [("Activity Buffer Request", 500), ("Command Buffer Full", 0)]
)
def test_the_tracers_own_work_is_taken_out_where_it_happened(record, removed_us):
    """Waiting for a full queue is not the tracer's: programs wait for that without it too."""
    parts = parts_of(recording(record))
    linked = parts.linked(Overhead())
    moved = parts.line.start - linked.times.start
    second = np.flatnonzero(parts.line.start - parts.line.start.min() == 640_000)[0]
    assert moved[second] == removed_us * 1_000
    assert linked.undilated_ms == pytest.approx(removed_us / 1_000)


def test_figures_of_a_card_count_where_they_come_to_more():
    parts = parts_of(recording())
    assert parts.cost(Overhead(launch_ns=1)).launch_ns == 0  # launches of 5 us cost nothing more
    assert parts.cost(Overhead(launch_ns=1, step_ns=7)).step_ns == 7
    dear = Overhead(operator_ns=9_000, launch_ns=4_000)
    assert parts.cost(dear) == dear


def test_the_first_of_two_steps_is_not_the_usual_one(tmp_path):
    """It began while the device still worked for a step that nobody recorded."""
    events = [
        *recording()[:3],
        event("k", "kernel", 900, 10, tid=7, correlation=1, stream=7, device=0),
        event("ProfilerStep#1", "user_annotation", 1_000, 200),
        event("aten::b", "cpu_op", 1_010, 100),
        event("cudaLaunchKernel", "cuda_runtime", 1_020, 5, correlation=2),
        event("k", "kernel", 1_030, 80, tid=7, correlation=2, stream=7, device=0),
    ]
    path = tmp_path / "kineto.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    _, report = link([path])
    assert report.recorded_step_ns == 200_000
