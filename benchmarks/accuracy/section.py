"""One section of the page: its text, or why it could not be measured."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
CLAIMS = sorted(p.stem for p in HERE.glob("*.py") if "\ndef measure(data: Path)" in p.read_text())
"""Files that measure a claim; scripts that run by themselves are not part of the page."""
LONGEST_REASON = 300
"""Characters of a reason that the page quotes."""


class Measured(NamedTuple):
    """A claim that was asked for, its section without the title or the reason why there is none."""

    name: str
    text: str = ""
    why: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the process and of all that it waited for."""

    @property
    def line(self) -> str:
        """How it went."""
        took = f"{self.name}: {self.seconds:.0f} s, {self.cpu_seconds:.0f} s of CPU"
        return f"{took}, NOT MEASURED: {self.why}" if self.why else took


def measured(name: str, data: Path) -> Measured:
    """The section of a claim; no error of it ends the others."""
    began, worked = time.monotonic(), _cpu_seconds()
    text = why = ""
    try:
        text = import_module(name).measure(data).strip()
    except (Exception, SystemExit) as error:
        traceback.print_exc(file=sys.stderr)
        why = _reason(error)
    return Measured(name, text, why, time.monotonic() - began, _cpu_seconds() - worked)


def _reason(error: BaseException) -> str:
    """What is wrong, in one line; of a command that failed the last line that it printed."""
    said = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        said = (str(error.stderr or "").strip().splitlines() or [said])[-1]
    return f"{type(error).__name__}: {' '.join(said.split())}"[:LONGEST_REASON]


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
