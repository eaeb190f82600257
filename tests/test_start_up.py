"""How processes of our own begin."""

import subprocess
import sys

import pytest


def test_pyarrow_converts_without_pandas_and_gives_it_when_asked():
    """In a process of its own: pyarrow looks for pandas once per process."""
    pytest.importorskip("pandas")
    program = (
        "import sys, numpy as np, pyarrow as pa\n"
        "from chakrakit.start_up import keep_pandas_out\n"
        "keep_pandas_out()\n"
        "table = pa.table({'a': np.arange(3)})\n"
        "assert table['a'].to_numpy().tolist() == [0, 1, 2]\n"
        "assert 'pandas' not in sys.modules\n"
        "assert table.to_pandas()['a'].tolist() == [0, 1, 2]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
