"""`python keeper.py PROGRAM …`: runs a program, none of whose processes outlives the one that asked for it.

A script of its own that needs the standard library alone. Processes that the program starts, and those whose
own parents are gone, are this one's descendants on Linux. When it is told to end (SIGTERM) or its parent is
gone, however that went, all of them are told to end, and those that do not within a few seconds are killed.
Where this process itself is killed, the program is told to end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PARENT_DEATH, _SUBREAPER = 1, 36
"""Linux's PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER."""
_GRACE_S = 3.0
"""A launcher needs this long to end its ranks; all must be gone 5 s after the parent."""
_POLL_S = 0.05
"""Seconds between two looks at a process: its end is noticed soon, and looking is cheap."""


def main(command: list[str]) -> int:
    """Gives the program's exit code, as a shell gives it; 127 if it cannot be run."""
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP):  # the second when a terminal is closed
        signal.signal(number, lambda number, frame: asked.append(number))
    signal.signal(signal.SIGINT, lambda number, frame: None)  # the program hears of it itself
    parent = os.getppid()
    control = getattr(ctypes.CDLL(None), "prctl", None)
    if control is not None:
        control(_SUBREAPER, 1, 0, 0, 0)
        control(_PARENT_DEATH, signal.SIGTERM, 0, 0, 0)

    def tied() -> None:
        if control is not None:
            control(_PARENT_DEATH, signal.SIGTERM, 0, 0, 0)

    try:
        program = subprocess.Popen(command, preexec_fn=tied)
    except OSError as error:
        os.write(2, f"error: cannot run {command[0]}: {error.strerror or error}\n".encode())
        return 127
    while program.poll() is None and not asked and os.getppid() == parent:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(_POLL_S)
    if program.returncode is None:
        end_all(program)
    code = program.wait()
    return code if code >= 0 else 128 - code


def end_all(program: subprocess.Popen[bytes]) -> None:
    """Tell the program to end, then everything that is left, then end it."""
    program.terminate()
    deadline = time.monotonic() + _GRACE_S
    while descendants() and time.monotonic() < deadline:
        if program.poll() is not None:
            _signal(descendants(), signal.SIGTERM)
        time.sleep(_POLL_S)
    while left := descendants():
        _signal(left, signal.SIGKILL)
        program.poll()
        _bury(program.pid)
        time.sleep(_POLL_S)


def descendants(of: int | None = None) -> list[int]:
    """Children and theirs, as Linux lists them; those that only wait to be asked for are none."""
    found, new = [], [os.getpid() if of is None else of]
    while new:
        children = [c for pid in new for c in _children(pid)]
        found += [c for c in children if not _is_over(c)]
        new = children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, listed.read_text().split())
    return found


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _signal(processes: list[int], number: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _bury(program: int) -> None:
    """Take note of adopted processes that ended; the program's own code is asked for elsewhere."""
    for pid in _children(os.getpid()):
        if pid != program:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
