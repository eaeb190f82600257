"""ASTRA-sim's engine from Python, by itself."""

from __future__ import annotations

import subprocess
import sys

import chakrakit as ck
from chakrakit.api import simulate, simulate_as_astra
from support.astra_cases import system, write_files


def test_it_is_what_simulate_does_with_three_files(tmp_path):
    t = ck.TraceBuilder()
    t.comp("work", num_ops=1000, tensor_size=10)
    traces = ck.TraceSet([t.build()], {0: ck.Binding(0), 1: ck.Binding(0)})
    files = write_files(tmp_path, system("direct"), ranks=2)
    alone = simulate_as_astra(traces, files, fold=False)
    assert alone.facts() == simulate(traces, astra=files, fold=False).facts()


def test_neither_arrow_nor_the_native_simulator_is_loaded_for_cycles():
    asked = "import sys; from chakrakit.api import simulate_as_astra; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", asked], text=True).split()
    assert "chakrakit.simulator.astra.simulation" in loaded
    assert not {"pyarrow", "chakrakit.simulator.engine"} & set(loaded)
