"""Laws that the interval of a predicted time obeys on every preset."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import load_machine
from chakrakit.machines.load import preset_names
from chakrakit.machines.residuals import residual_table
from chakrakit.results import three_digits
from chakrakit.simulator.results import SimulationSummary
from support.commands import data, succeeded

WORKLOADS = {
    "alone": {"seq": 512, "micro_batch": 2, "global_batch": 2},
    "float32": {"seq": 512, "dtype": "fp32"},
    "four replicas": {"seq": 512, "dp": 4, "global_batch": 4},
    "two parts": {"seq": 512, "tp": 2},
    "decoding": {"kind": "decode", "seq": 512, "new_tokens": 1},
}
TABLES = (
    ("carried profile", "a100"),
    ("carried profile", "b200"),
    ("carried profile", "h100"),
    ("measured profile", "h200"),
)
MEASURED = ("dgx-a100", "dgx-b200", "dgx-h100", "dgx-h200")
"""Presets whose devices have tables of products of their own."""


@cache
def traces_of(workload: str) -> ck.TraceSet:
    return ck.generate(model="gpt3-125m", layers=2, **WORKLOADS[workload]).traces


@cache
def simulated(workload: str, machine: str) -> SimulationSummary:
    return ck.simulate(traces_of(workload), machine).summary


def data_sheet_ns(workload: str, machine: str) -> float:
    """What the FLOPs of a device take at its peak rates; fused attention runs in 16 bits."""
    device, trace = load_machine(machine).devices[0], traces_of(workload).trace(0)
    codes, names = trace.texts("dtype")
    kinds = [*names, "bf16"]
    attention = trace.texts("op_type")[1].index("attention")
    codes = np.where(trace.texts("op_type")[0] == attention, len(names), codes)
    rates = np.array([device.peak_rate(kind) for kind in kinds])[codes]
    return float((trace.column("num_ops", 0) / rates).sum() * 1e9)


@pytest.mark.parametrize("machine", preset_names())
@pytest.mark.parametrize("workload", WORKLOADS)
def test_an_interval_holds_its_time_and_begins_at_what_is_possible(
    workload: str, machine: str
) -> None:
    found = simulated(workload, machine)
    assert found.interval_ns is not None
    low, high = found.interval_ns
    assert data_sheet_ns(workload, machine) <= low * (1 + 1e-9)
    assert low <= found.makespan_ns <= high


@pytest.mark.parametrize("machine", [n for n in preset_names() if n not in MEASURED])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_device_that_nobody_measured_is_no_surer_than_any_that_was(
    workload: str, machine: str
) -> None:
    """Each group of kernels of its path, beside the same kind and size of work where it was measured."""
    table = residual_table()
    groups = [g.split("/") for g in simulated(workload, machine).interval_groups]
    kernels = [g for g in groups if g[0] == "kernel"]
    assert kernels
    for group in kernels:
        own = table.cautious(*group)
        for rung, system in TABLES:
            known = table.spread("kernel", rung, *group[2:4], "within", system)
            assert own is not None
            assert known is not None
            assert own.low <= known.low
            assert own.high >= known.high


@pytest.mark.parametrize("machine", preset_names())
def test_a_printed_interval_is_that_of_the_data(machine: str, tmp_path: Path) -> None:
    ck.write(traces_of("alone"), tmp_path / "w")
    found = data("simulate", tmp_path / "w", "--machine", machine)["interval_ns"]
    assert tuple(found) == pytest.approx(simulated("alone", machine).interval_ns, rel=1e-9)
    low, high = (three_digits(bound / 1e6) for bound in found)
    assert f"({low}–{high})" in succeeded("simulate", tmp_path / "w", "--machine", machine)


# --- simulated again ----------------------------------------------------------------------------


def test_a_run_that_is_simulated_again_keeps_its_time_and_its_interval(tmp_path: Path) -> None:
    """Times of a run have what communication beside them costs, and are no surer than they were."""
    plan = {"dp": 8, "data": "fsdp", "seq": 512, "global_batch": 8}
    ck.write(ck.generate(model="gpt3-125m", layers=2, **plan).traces, tmp_path / "w")
    first = ck.simulate(ck.read(tmp_path / "w"), "dgx-h100")
    ck.write(first.run(), tmp_path / "run")
    again = ck.simulate(ck.read(tmp_path / "run"), "dgx-h100").summary
    assert again.makespan_ns == pytest.approx(first.summary.makespan_ns, rel=1e-6)
    assert again.interval_ns == pytest.approx(first.summary.interval_ns, rel=1e-3)
    edit = "edit{scale=0.5, classes=[attention]}"
    succeeded("transform", tmp_path / "run", "--pass", edit, "-o", tmp_path / "edited")
    edited = ck.simulate(ck.read(tmp_path / "edited"), "dgx-h100").summary
    assert edited.makespan_ns < first.summary.makespan_ns
    low, high = edited.interval_ns or (0.0, 0.0)
    assert low < 0.95 * edited.makespan_ns < 1.05 * edited.makespan_ns < high
