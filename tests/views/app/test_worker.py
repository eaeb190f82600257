"""A thread for long tasks: in order, cancelled until begun, and not waited for at the end."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from chakrakit.views.app.shown_run import TaskThread


def test_tasks_are_done_in_order_and_errors_given_to_who_asks():
    worker, finished = TaskThread(), []
    first = worker.submit(lambda: finished.append(1) or "first")
    wrong = worker.submit(lambda: 1 // 0)
    second = worker.submit(lambda: finished.append(2) or "second")
    assert (first.result(), second.result(), finished) == ("first", "second", [1, 2])
    with pytest.raises(ZeroDivisionError):
        wrong.result()


def test_a_task_that_is_not_begun_can_be_cancelled():
    worker, go = TaskThread(), threading.Event()
    running = worker.submit(go.wait)
    waiting = worker.submit(lambda: "never")
    while not running.running():
        pass
    assert (running.cancel(), waiting.cancel()) == (False, True)
    go.set()
    assert worker.submit(lambda: "next").result() == "next"


@pytest.mark.slow
def test_the_program_ends_while_a_task_runs():
    program = (
        "import time; from chakrakit.views.app.shown_run import TaskThread; "
        "TaskThread().submit(lambda: time.sleep(999))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
