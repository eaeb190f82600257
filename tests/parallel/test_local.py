"""Items on this machine's cores: each job has a process of its own, which ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from chakrakit.parallel import each, run_kept
from chakrakit.parallel.local import Local


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
from chakrakit.parallel import each, run_kept
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


@pytest.mark.slow
def test_workers_end_where_there_is_no_pgrep(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """loky asks that program for what a worker has started, and waits for ever without it."""
    engine = Local(1)
    (worker,) = {engine.submit(lambda _: os.getpid(), 1).result().value}
    monkeypatch.setenv("PATH", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_kept_program_has_its_output_its_code_and_its_time() -> None:
    done = run_kept(["sh", "-c", "echo said; echo told >&2; exit 3"], 20)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"said\n", b"told\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run_kept(["sleep", "60"], 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_kept_program_ends_with_who_asked_for_it(number: int, tmp_path: Path) -> None:
    """Also what it started, and after SIGKILL."""
    script = f"sleep 60 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; wait"
    asking = f"from chakrakit.parallel import run_kept; run_kept(['sh', '-c', {script!r}], 60)"
    with subprocess.Popen([sys.executable, "-c", asking]) as started:
        while not (tmp_path / "self").exists() or not (tmp_path / "self").read_text():
            time.sleep(0.05)
        started.send_signal(number)
    deadline = time.monotonic() + 5
    for name in ("self", "child"):
        while Path(f"/proc/{(tmp_path / name).read_text().strip()}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
