"""The critical path: by hand, on random graphs across ranks, on linked recordings."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.critical_path.critical_path import critical_path
from chakrakit.trace.sets import Run, Times, run_of

WORK = {"compute", "communication", "copy", "host"}
WAITS = {
    "launch",
    "kernel gap",
    "synchronization",
    "dependency",
    "event",
    "recorded wait",
    "lane",
    "began later",
    "background",
}


def check(path) -> None:
    """No holes, no overlap, and the parts sum to the whole."""
    for a, b in zip(path.segments, path.segments[1:], strict=False):
        assert a.end_ns == b.start_ns
    assert sum(s.end_ns - s.start_ns for s in path.segments) == path.length_ns
    assert sum(path.attribution.values()) == path.length_ns
    assert sum(ns for *_, ns in path.operators) == path.length_ns
    assert {s.what for s in path.segments} <= WORK | WAITS | {"unexplained"}


def test_goes_through_the_rank_that_came_last(two_ranks):
    path = critical_path(two_ranks)
    check(path)
    segments = [(s.rank, s.name, s.what, s.end_ns - s.start_ns) for s in path.segments]
    assert segments == [
        (1, "forward", "compute", 30_000),
        (0, "sum", "communication", 20_000),
        (0, "update", "compute", 5_000),
    ]
    assert path.rank_changes == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_are_explained_to_the_last_nanosecond(make_random, seed):
    run, _ = make_random(seed, ranks=3)
    path = critical_path(run)
    check(path)
    assert path.length_ns == run.makespan_ns
    assert path.unexplained_ns == 0


def test_a_receive_leads_to_its_sender():
    """Rank 1 waits in a receive until rank 0 sends: the path goes through rank 0's work."""
    sender, receiver = ck.TraceBuilder(), ck.TraceBuilder()
    work = sender.comp("work", stream=7, duration_ns=40_000)
    sender.send("send", 0, 1, 1024, stream=20, duration_ns=8_000, deps=[work])
    received = receiver.recv("recv", 0, 1, 1024, stream=20, duration_ns=48_000)
    receiver.comp("use", stream=7, duration_ns=1_000, deps=[received])
    times = {
        0: Times(np.array([0, 40_000]), np.array([40_000, 48_000])),
        1: Times(np.array([0, 48_000]), np.array([48_000, 49_000])),
    }
    run = run_of(ck.TraceSet([sender.build(), receiver.build()]), times, tick_ps=1000)
    path = critical_path(run)
    check(path)
    assert [(s.rank, s.name) for s in path.segments] == [(0, "work"), (1, "recv"), (1, "use")]


def test_what_nothing_explains_is_called_so():
    """Two nodes with a hole between them that no constraint fills."""
    t = ck.TraceBuilder()
    a = t.comp("a", stream=7, duration_ns=1_000)
    t.comp("b", stream=7, duration_ns=1_000, deps=[a])
    run = run_of(
        ck.TraceSet([t.build()]),
        {0: Times(np.array([0, 9_000]), np.array([1_000, 10_000]))},
        tick_ps=1000,
    )
    path = critical_path(run)
    check(path)
    assert path.unexplained_ns == 8_000


def test_recorded_causes_are_taken_at_their_word():
    """A run that says what each node waited for: here a row on another rank."""
    a, b = ck.TraceBuilder(), ck.TraceBuilder()
    a.comp("slow", stream=7, duration_ns=10_000)
    b.comp("after", stream=7, duration_ns=5_000)
    times = {
        0: Times(
            np.array([0]), np.array([10_000]), np.array([-1], np.int32), np.array([-1], np.int32)
        ),
        1: Times(
            np.array([10_000]), np.array([15_000]), np.array([0], np.int32), np.array([0], np.int32)
        ),
    }
    path = critical_path(run_of(ck.TraceSet([a.build(), b.build()]), times, tick_ps=1000))
    check(path)
    assert [(s.rank, s.name, s.what) for s in path.segments] == [
        (0, "slow", "compute"),
        (1, "after", "compute"),
    ]


def test_picoseconds_lose_nothing_of_the_order(make_random):
    """The same run in picoseconds has the same path."""
    run, _ = make_random(3)
    finer = run_of(
        run, {r: Times(run.start(r) * 1000, run.end(r) * 1000) for r in run.ranks}, tick_ps=1
    )
    assert finer.tick_ps == 1
    assert critical_path(finer).segments == critical_path(run).segments


@pytest.mark.parametrize(
    "name", ["gpt2_124m_b8_s1024", "resnet50_b128", "gpt_fsdp_tp_4", "gpt_pp_2", "cnn_ddp_2"]
)
def test_linked_recordings_are_explained(linked, name):
    path = critical_path(linked(name))
    check(path)
    assert path.length_ns == path.end_ns - path.start_ns
    assert path.unexplained_ns < 0.01 * path.length_ns


def test_steps_bound_by_the_device_show_it(linked):
    """Two steps recorded without the observer: a good part of the path is kernels."""
    path = critical_path(linked("gpt2_124m_b8_s1024", two_passes=True))
    assert path.attribution["compute"] > 0.2 * path.length_ns


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "resnet50_b128"])
def test_what_recording_cost_is_no_part_of_the_path(linked, name):
    """Two steps recorded in mid-flight and corrected: the device bounds them, as in the program."""
    path = critical_path(linked(name, two_passes=True))
    check(path)
    assert path.attribution["compute"] > 0.9 * path.length_ns
    assert path.attribution.get("host", 0) < 0.01 * path.length_ns


def test_an_empty_run():
    assert critical_path(Run([ck.TraceBuilder().build()])).length_ns == 0
