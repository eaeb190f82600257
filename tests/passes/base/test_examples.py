"""The example runs as it stands."""

import subprocess
import sys

import pytest

from support.paths import EXAMPLES


@pytest.mark.slow
def test_what_if(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "what_if.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "scale-ranks{ranks=64} | edit{scale=0, classes=[attention]}" in done.stdout


@pytest.mark.slow
def test_share_safely(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "share_safely.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "names left: 0 of 503" in done.stdout
