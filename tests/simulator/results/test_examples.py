"""The examples run as they stand."""

import subprocess
import sys

import pytest

from support.paths import EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bandwidth_sweep.py", "wrote bandwidth_sweep.svg"),
        ("straggler_study.py", "rank 0 waits mostly for rank 5"),
        ("custom_machine.py", "two-racks: 32 devices"),
        ("dispatch_policy.py", "longest tail first     10,000 ns"),
    ],
)
def test_example(name, said, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
