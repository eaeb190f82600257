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


def test_garbage_is_sought_seldom_in_our_own_processes_alone():
    """In a process of its own, whose settings stay: the package leaves a program's as they were."""
    program = (
        "import gc, chakrakit\n"
        "before = gc.get_threshold()\n"
        "from chakrakit.start_up import collect_seldom\n"
        "assert gc.get_threshold() == before\n"
        "collect_seldom()\n"
        "assert gc.get_threshold() == (100_000, *before[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_simulation_loads_no_format_of_others_and_no_calibration():
    """In a process of its own, in which nothing else has loaded them."""
    program = (
        "import sys\n"
        "import chakrakit as ck\n"
        "work = ck.TraceBuilder()\n"
        "work.comp('work', num_ops=1000, tensor_size=10)\n"
        "ck.simulate(ck.TraceSet([work.build()]), 'dgx-h100')\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "chakrakit.simulator.engine" in loaded
    unused = {"chakrakit.sources.foreign", "chakrakit.machines.calibrate", "xml.etree.ElementTree"}
    assert not unused & loaded
