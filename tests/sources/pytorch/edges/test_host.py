"""Order on host threads: what is called, what comes next, and the host's own time."""

from __future__ import annotations

from chakrakit.trace.model import EdgeKind
from support.rescheduled import kinds, plan


def test_thread_order_keeps_the_hosts_own_gap(recording):
    recording.op("a", 0, 10)
    recording.op("b", 13, 5)
    rank = recording.link()
    assert plan(rank, a=50)["b"][0] == 53
    assert plan(rank, without=EdgeKind.THREAD, a=50)["b"][0] == 0


def test_a_call_holds_what_it_calls_and_own_time_excludes_it(recording):
    recording.op("outer", 0, 100)
    recording.op("inner", 10, 30)
    rank = recording.link()
    assert kinds(rank, EdgeKind.CALL) == [("outer", "inner")]
    assert rank.own_ns.tolist() == [70_000, 30_000]
    assert plan(rank)["inner"][0] == 10
    assert plan(rank, without=EdgeKind.CALL)["inner"][0] == 0


def test_equal_starts_nest_by_length(recording):
    """Whole microseconds make parent and child start together; the longer one is the parent."""
    recording.op("inner", 0, 30)
    recording.op("outer", 0, 50)
    rank = recording.link()
    own = {rank.names[r]: int(rank.own_ns[r]) for r in range(2)}
    assert own == {"outer": 20_000, "inner": 30_000}


def test_the_backward_thread_runs_while_its_caller_waits(recording):
    """What the engine's thread needs is not the main thread's own time."""
    recording.op("loss", 0, 10)
    recording.op("autograd::engine::evaluate_function: A", 20, 30, tid=2)
    recording.op("autograd::engine::evaluate_function: B", 52, 8, tid=2)
    recording.op("step", 65, 5)
    rank = recording.link()
    assert plan(rank)["step"][0] == 65
    slow = {"autograd::engine::evaluate_function: B": 108}
    assert plan(rank, **slow)["step"][0] == 165
    quick = {
        "autograd::engine::evaluate_function: A": 0,
        "autograd::engine::evaluate_function: B": 0,
    }
    assert plan(rank, **quick)["step"][0] == 27  # 10, then 10 before, 2 between and 5 after


def test_a_backward_thread_is_called_though_its_caller_runs_functions_of_its_own(recording):
    """Autograd runs what is on the CPU on the thread that called it, beside the device's thread."""
    recording.op("loss", 0, 10)
    recording.op("autograd::engine::evaluate_function: A", 20, 30, tid=2)
    recording.op("autograd::engine::evaluate_function: C", 40, 5)
    recording.op("autograd::engine::evaluate_function: B", 52, 8, tid=2)
    rank = recording.link()
    calls = kinds(rank, EdgeKind.CALL)
    assert ("loss", "autograd::engine::evaluate_function: A") in calls
    assert plan(rank, loss=50)["autograd::engine::evaluate_function: A"][0] == 60
