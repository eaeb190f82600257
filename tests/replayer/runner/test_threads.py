"""Host threads of a plan."""

from __future__ import annotations

import threading

import pytest

from chakrakit.replayer.runner.threads import Threads, _in_order

torch = pytest.importorskip("torch")


def test_the_backward_thread_is_another_thread(tmp_path):
    ran = []
    steps = [lambda: ran.append(threading.get_ident())] * 4
    threads = Threads(torch, steps, [0, 1, 1, 0])
    threads.run()
    threads.close()
    assert ran[0] == ran[3] == threading.get_ident()
    assert ran[1] == ran[2] != ran[0]


def test_threads_run_at_the_same_time_where_neither_needs_the_other():
    """Both wait for the other in the middle: only threads that run at once get past that."""
    both = threading.Barrier(2)
    ran = []

    def meet(who):
        both.wait(timeout=30)
        ran.append(who)

    steps = [lambda: None, lambda: meet(1), lambda: meet(0), lambda: ran.append("end")]
    threads = Threads(torch, steps, [0, 1, 0, 0], [[], [0], [], [1]])
    for _ in range(3):
        ran.clear()
        threads.run()
        assert sorted(ran[:2]) == [0, 1]
        assert ran[2] == "end"
    threads.close()


def test_a_thread_that_fails_ends_those_that_wait_for_it():
    def fail():
        raise ValueError("no")

    steps = [lambda: None, fail, lambda: None]
    threads = Threads(torch, steps, [0, 1, 0], [[], [0], [1]])
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            threads.run()
    threads.close()


def test_without_needs_each_thread_begins_when_the_one_before_is_done():
    assert _in_order([0, 0, 1, 1, 0]) == [[], [], [1], [], [3]]
    assert _in_order([]) == []
