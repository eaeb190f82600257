"""A hostile input that somebody thought of: what is made, what is typed, and what must come of it."""

from __future__ import annotations

import os
import re
import resource
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MOST_S, MOST_MB = 2.0, 300.0
"""What one command may take over a small hostile input: processor seconds, and resident megabytes."""
PYTORCH_S, PYTORCH_MB = 6.0, 400.0
"""What PyTorch takes by itself to start in the processes of a replay."""


@dataclass(frozen=True)
class Attack:
    """One case.

    `make` writes the input into an empty folder. `command` is typed with `{in}` for that folder and `{out}`
    for a place that is free; it must end with `exit`, and what it prints must match `says`.
    """

    name: str
    make: Callable[[Path], object]
    command: str
    says: str
    exit: int = 2
    pytorch: bool = False
    """Whether the command starts PyTorch, whose own time and memory are not the input's fault."""
    large: bool = False
    """Whether the input itself takes seconds to make."""

    def words(self, given: Path, out: Path) -> list[str]:
        """The command line."""
        placed = self.command.replace("{in}", str(given)).replace("{out}", str(out))
        return shlex.split(placed)


@dataclass(frozen=True)
class Walked:
    """How a command ended over an attack."""

    attack: Attack
    exit: int
    said: str
    seconds: float
    megabytes: float

    @property
    def problem(self) -> str:
        """What is wrong with it; nothing if it stood."""
        most_s = MOST_S + PYTORCH_S * self.attack.pytorch
        most_mb = MOST_MB + PYTORCH_MB * self.attack.pytorch
        if self.exit != self.attack.exit:
            return f"exit {self.exit}: {self.said.strip()[-300:]}"
        if not re.search(self.attack.says, " ".join(self.said.split())):
            return f"does not say {self.attack.says!r}: {self.said.strip()[-300:]}"
        if "Traceback" in self.said:
            return "traceback"
        if self.seconds > most_s or self.megabytes > most_mb:
            return "over the limits"
        return ""


def walk(attack: Attack, folder: Path, patience: float = 60.0) -> Walked:
    """Runs the command in a process of its own, which is ended when patience is at its end."""
    given, out = folder / "in", folder / "out"
    given.mkdir(parents=True)
    attack.make(given)
    words = [sys.executable, "-c", _COMMAND, str(folder / "peak"), *attack.words(given, out)]
    with tempfile.TemporaryFile("w+b") as said:
        status, used = _run(words, said.fileno(), patience)
        said.seek(0)
        text = said.read().decode(errors="replace")
    peak = folder / "peak"
    megabytes = int(peak.read_text()) / 1024 if peak.exists() else used.ru_maxrss / 1024
    seconds = used.ru_utime + used.ru_stime
    return Walked(attack, os.waitstatus_to_exitcode(status), text, seconds, megabytes)


_COMMAND = """
import atexit, sys
from chakrakit.commands import main
peak = sys.argv.pop(1)

@atexit.register
def leave_behind():
    said = open("/proc/self/status").read()
    open(peak, "w").write(said.split("VmHWM:")[1].split()[0])

main()
"""
"""The command, which leaves behind what it took at the most: what its parent took is not among it."""


def _run(words: list[str], said: int, patience: float) -> tuple[int, resource.struct_rusage]:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, said, 1),
        (os.POSIX_SPAWN_DUP2, said, 2),
    ]
    process = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        done, status, used = os.wait4(process, os.WNOHANG)
        if done:
            return status, used
        time.sleep(0.01)
    os.kill(process, 9)
    _, status, used = os.wait4(process, 0)
    return status, used
