"""A program whose processes all end with whoever asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chakrakit.parallel import KEEPER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux lists descendants")

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); "
    "time.sleep(600)"
)
"""A process that does not end when it is told to."""
SHELL = ["sh", "-c", f'{sys.executable} -c "{STUBBORN}"; true']
"""A shell around it, which ends and leaves it behind."""


def command(*program: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(KEEPER), *program]


def tagged(tag: str) -> list[int]:
    """Living processes that have this in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            over = place.joinpath("stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            if not over and tag.encode() in place.joinpath("environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def all_gone(tag: str) -> bool:
    deadline = time.monotonic() + 60  # they take 3 s and a bit; a busy machine takes longer
    while tagged(tag) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not tagged(tag)


@pytest.mark.parametrize(("program", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_program_s_exit_code_is_given(program, code):
    assert subprocess.run(command("sh", "-c", program)).returncode == code


def test_a_program_that_is_not_there_is_said():
    done = subprocess.run(command("no-such-program"), capture_output=True, text=True)
    assert done.returncode == 127
    assert "cannot run no-such-program" in done.stderr


@pytest.mark.first(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_one_that_asked_is_ended(number):
    """Not even a process that a shell left behind and that ignores its termination."""
    tag = f"KEPT_BY={os.getpid()}-{number}"
    name, _, value = tag.partition("=")
    parent = [
        sys.executable,
        "-c",
        f"import subprocess, signal; p = subprocess.Popen({command(*SHELL)}); p.wait()",
    ]
    with subprocess.Popen(
        parent, env={**os.environ, name: value}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the innermost is there
        assert len(tagged(tag)) == 4
        process.send_signal(number)
    assert all_gone(tag)


def test_a_program_whose_keeper_is_killed_is_told_to_end():
    tag = f"KEEPER_TEST={os.getpid()}-killed"
    waiting = command(sys.executable, "-c", "import time; print('on', flush=True); time.sleep(600)")
    environment = {**os.environ, "KEEPER_TEST": tag.partition("=")[2]}
    with subprocess.Popen(waiting, env=environment, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"on\n"
        keeper.kill()
    assert all_gone(tag)
