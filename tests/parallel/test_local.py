"""Items on this machine's cores: each job has a process of its own, which ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chakrakit.parallel import each


@pytest.mark.slow
def test_the_neighbour_of_a_killed_worker_keeps_its_time(tmp_path: Path) -> None:
    """While one worker dies, the other goes on with the item that it has begun."""

    def work(item: int) -> int:
        with (tmp_path / f"{item}").open("a") as started:
            started.write("x")
        if item == 1:
            while not (tmp_path / "0").exists():
                time.sleep(0.01)
            if (tmp_path / "1").read_text() == "x":
                os.kill(os.getpid(), signal.SIGKILL)
            return 1
        deadline = time.monotonic() + 20
        while len((tmp_path / "1").read_text() if (tmp_path / "1").exists() else "") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return 0

    found = sorted(each(work, range(2), "local", 2), key=lambda o: o.index)
    assert [(o.value, o.error) for o in found] == [(0, None), (1, None)]
    assert (tmp_path / "0").read_text() == "x"
    assert (tmp_path / "1").read_text() == "xx"


def test_what_cannot_travel_is_an_error_of_its_item() -> None:
    """A result that no pickle takes is no reason to blame the worker's memory."""
    (found,) = each(lambda _: iter(threading.Lock() for _ in "a"), [1], "local", 1)
    assert "pickle" in (found.error or "")
    assert not found.died


STARTER = """
import os, sys, time
from chakrakit.parallel import each
def work(item):
    print(os.getpid(), flush=True)
    time.sleep(60)
for _ in each(work, range(2), "local", 2):
    pass
"""


@pytest.mark.flaky(reruns=2)  # two workers write into one pipe
@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_workers_end_with_their_parent(how: signal.Signals) -> None:
    """After Ctrl-C, and after a parent that could not say goodbye."""
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(how)
    assert parent.wait(timeout=30) != 0
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{w}").exists() for w in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
