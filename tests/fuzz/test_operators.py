"""Operators of a replay with arguments of all sorts: `make fuzz` makes 100,000 calls, this a few."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls of Linux")


@pytest.mark.slow
def test_every_overload_is_called_twice_and_nothing_gets_out():
    script = Path(__file__).with_name("operators.py")
    command = [sys.executable, str(script), "--calls", "700", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("nothing got out\n")
