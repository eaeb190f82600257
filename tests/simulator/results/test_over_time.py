"""What a simulated run says over time sums to what it says of the whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.simulator.engine import native


@pytest.fixture(scope="module")
def simulation():
    plan = {"dp": 2, "tp": 2, "pp": 2, "seq": 512, "global_batch": 8, "micro_batch": 1}
    traces = ck.generate(model="llama-3.2-1b", layers=2, **plan).traces
    return ck.simulate(traces, "dgx-h100:1")


@pytest.fixture(scope="module")
def run(simulation):
    return simulation.run()


def test_power_sums_to_the_energy_and_stays_within_the_limit(simulation, run):
    table = run.counters["power"]
    parts = np.unique(table["rank"].to_numpy(), return_counts=True)[1]
    watts = table["watts"].to_numpy()
    copies = {r: len(fold) for fold in run.folds for r in fold[:1]}
    weight = np.array([copies[r] for r in table["rank"].to_pylist()])
    joules = (watts * weight).sum() / parts[0] * simulation.makespan_ns / 1e9
    assert joules == pytest.approx(simulation.summary.energy_joules, rel=1e-6)
    assert watts.max() <= 700.0


def test_the_rates_of_links_sum_to_their_bytes(run):
    rates = run.counters["link_rate"].sort_by([("link", "ascending"), ("time_ns", "ascending")])
    moved: dict[str, float] = {}
    rows = rates.to_pylist()
    for row, after in itertools.pairwise(rows):
        if row["link"] == after["link"]:
            nanos = after["time_ns"] - row["time_ns"]
            moved[row["link"]] = moved.get(row["link"], 0) + row["bytes_per_s"] * nanos / 1e9
    said = {row["link"]: row["bytes"] for row in run.counters["links"].to_pylist()}
    assert moved.keys() == said.keys()
    assert moved == pytest.approx(said, rel=1e-3)  # borders are whole nanoseconds
    assert {row["bytes_per_s"] for row in rows[-1:]} == {0.0}  # nothing flows after the end


def test_links_have_no_history_where_it_would_cost_too_much(simulation, monkeypatch):
    monkeypatch.setattr(native.Traffic, "parts", lambda self, most: 0)
    assert "link_rate" not in simulation.run().counters
