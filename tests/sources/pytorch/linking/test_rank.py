"""One rank from its files: matched, its causes found, and what recording cost it."""

from __future__ import annotations

import numpy as np

from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.linking.rank import captures_of, link_rank
from chakrakit.sources.pytorch.read import read_observer


def test_figures_of_a_card_count_where_they_come_to_more(slow_step):
    parts = slow_step.parts()
    assert parts.cost(Overhead(launch_ns=1)).launch_ns == 0  # launches of 5 us cost nothing more
    assert parts.cost(Overhead(launch_ns=1, step_ns=7)).step_ns == 7
    dear = Overhead(operator_ns=9_000, launch_ns=4_000)
    assert parts.cost(dear) == dear


def test_several_costs_can_be_tried_on_one_rank(slow_step):
    """A launch is shortened by as much as recording it cost; the parts stay as they were."""
    parts = slow_step.parts()
    cheaper = parts.linked(Overhead(launch_ns=100_000))
    assert cheaper.undilated_ms == 0.2  # two launches
    assert cheaper.times.start.max() < parts.line.start.max()
    again = parts.linked(None)
    assert (again.times.start == parts.line.start).all()
    assert again.undilated_ms == 0


def test_the_observer_alone_gives_order_without_times(recording):
    outer = recording.op("aten::linear", 0, 50)
    recording.op("aten::addmm", 10, 30, parent=outer)
    rank = link_rank(0, read_observer(recording.observer_json().encode()), None)
    assert [rank.names[r] for r in range(2)] == ["aten::linear", "aten::addmm"]
    assert (rank.line.parent.tolist(), rank.own_ns.tolist()) == ([-1, 0], [0, 0])
    assert len(rank.device.rows) == 0


def test_communication_takes_its_whole_time_whatever_is_recorded_inside(recording):
    recording.device = "cpu"
    recording.op("c10d::allreduce_", 0, 10, reads=(1,))
    recording.op("gloo:all_reduce", 20, 100, tid=5, reads=(1,))
    recording.op("aten::copy_", 30, 40, tid=5)
    rank = recording.link()
    own = {rank.names[r]: int(rank.own_ns[r]) for r in range(len(rank.line))}
    assert own == {"c10d::allreduce_": 10_000, "gloo:all_reduce": 100_000, "aten::copy_": 40_000}


def test_a_recording_that_captures_no_graph_has_no_captures(slow_step):
    assert captures_of(slow_step.link()) == []


def test_kernels_of_a_replay_are_named_by_the_capture_in_the_same_recording(recording):
    recording.call("cudaStreamBeginCapture", 0, 2, corr=1)
    recording.op("aten::mm", 10, 10)
    recording.call("cudaLaunchKernel", 12, 2, corr=2)
    recording.call("cudaStreamEndCapture", 25, 2, corr=3)
    recording.call("cudaGraphLaunch", 30, 3, corr=4)
    recording.kernel("gemm", 40, 8, corr=4, **{"graph node id": 1})
    rank = recording.link()
    (row,) = np.flatnonzero(rank.line.lane >= 0).tolist()
    assert {r: o.name for r, o in rank.graphs.operators.items()} == {row: "aten::mm"}
