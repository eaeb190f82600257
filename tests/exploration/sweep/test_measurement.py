"""One point: its traces, its passes, its simulation, and the row that comes of it."""

from __future__ import annotations

import pytest

from chakrakit.exploration.sweep import mean, measure
from chakrakit.exploration.sweep.measurement import SimulatedRow
from chakrakit.exploration.sweep.points import StudyPoint
from chakrakit.exploration.sweep.study import MachineChoice, StudySettings
from chakrakit.simulator.results import RankSummary, simulate
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import generate

WORKLOAD = Workload(
    model=Decoder(name="m", layers=2, hidden=64, heads=4, vocab=100),
    plan=Plan(dp=2),
    step=Step(seq=64, global_batch=2),
)
CONTENT = {
    "device": {"peak": {"bf16": "1 TFLOP/s"}, "memory_bandwidth": "1 TB/s", "memory": "1 kB"},
    "network": [{"topology": "switch", "size": 2, "bandwidth": "10 GB/s"}],
}


def measured(*passes: str) -> SimulatedRow:
    return measure(
        StudyPoint(
            parameters={},
            workload=WORKLOAD,
            machine=MachineChoice("small", CONTENT),
            passes=passes,
            settings=StudySettings(compute="roofline"),
            key="k",
            weight=1,
        )
    )


def test_a_row_says_what_the_simulation_says() -> None:
    row = measured()
    machine = MachineChoice("small", CONTENT).machine()
    alone = simulate(generate(WORKLOAD), machine, compute="roofline").summary
    assert (row.ranks, row.step_ns) == (2, alone.makespan_ns)
    assert row.tokens_per_s == pytest.approx(128 / (alone.makespan_ns * 1e-9))
    assert not row.fits
    assert (row.energy_joules, row.price) == (None, None)


def test_after_passes_nobody_knows_the_tokens() -> None:
    assert measured("compact").tokens_per_s is None


def test_the_mean_over_ranks() -> None:
    figures = dict.fromkeys(set(RankSummary.__struct_fields__), 0)
    ranks = [RankSummary(**{**figures, "idle_ns": n}) for n in (1.0, 2.0, 6.0)]
    assert mean(ranks, "idle_ns") == 3
