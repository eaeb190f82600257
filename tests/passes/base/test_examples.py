"""The examples run as they stand and print what they promise."""

import subprocess
import sys

import pytest

from support.paths import EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("what_if", "scale-ranks{ranks=64} | edit{scale=0, classes=[attention]}"),
        ("share_safely", "names left: 0 of 503"),
    ],
)
def test_an_example_prints_its_result(name, printed, tmp_path):
    command = [sys.executable, EXAMPLES / f"{name}.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
