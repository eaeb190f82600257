"""ASTRA-sim's engine from Python, by itself."""

from __future__ import annotations

import subprocess
import sys

import chakrakit as ck
from chakrakit.commands.astra import simulate_as_astra
from support.astra_cases import system, write_files


def test_it_is_what_simulate_does_with_three_files(tmp_path):
    t = ck.TraceBuilder()
    t.comp("work", num_ops=1000, tensor_size=10)
    traces = ck.TraceSet([t.build()], {0: ck.Binding(0), 1: ck.Binding(0)})
    files = write_files(tmp_path, system("direct"), ranks=2)
    alone = simulate_as_astra(traces, files, fold=False)
    assert alone.facts() == ck.simulate(traces, astra=files, fold=False).facts()


def test_neither_arrow_nor_the_native_simulator_is_loaded_for_cycles(tmp_path):
    t = ck.TraceBuilder()
    t.comp("work", num_ops=1000, tensor_size=10)
    ck.write(ck.TraceSet([t.build()] * 2), tmp_path / "w.N.et")
    files = write_files(tmp_path, system("direct"), ranks=2)
    line = ["simulate", str(tmp_path / "w"), "--astra", *files, "--json"]
    code = f"import sys; from chakrakit.commands import group\ngroup.main({line}, standalone_mode=False)\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "chakrakit.simulator.astra.simulation" in done.stderr.split()
    assert not {"pyarrow", "chakrakit.simulator.engine"} & set(done.stderr.split())
