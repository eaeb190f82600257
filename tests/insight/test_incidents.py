"""Which signal of a node gives an incident away."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chakrakit.campaigns import Incident, telemetry
from chakrakit.insight.incidents import incident_table, incidents_of


def counters(*incidents: Incident) -> dict[str, pa.Table]:
    seen = telemetry(8, 400, incidents, seed=1, seconds=60.0)
    return {"telemetry": seen.series(), "incidents": seen.labels()}


def test_the_signal_that_an_incident_moves_most_is_named_with_its_value() -> None:
    shown = incidents_of(counters(Incident(5, "power", 100, 200), Incident(2, "nic", 50, 120)))
    assert [(i.node, i.kind, i.begin_ns) for i in shown] == [
        (2, "nic", 50 * 60 * 10**9),
        (5, "power", 100 * 60 * 10**9),
    ]
    nic, power = shown
    assert (nic.signal, power.signal) == (
        "nic",
        "clock",
    )  # a tenth of the clock, which scatters least
    assert nic.relative == pytest.approx(0.6, abs=0.02)
    assert nic.scatter == pytest.approx(0.4 / 0.05, rel=0.1)
    assert power.scatter == pytest.approx(0.1 / 0.005, rel=0.1)
    assert len(incident_table(shown).rows) == 2


def test_a_run_without_incidents_or_telemetry_shows_none() -> None:
    assert incidents_of({}) == []
    assert incidents_of(counters()) == []
    assert incidents_of({"telemetry": counters()["telemetry"]}) == []


def test_an_incident_outside_of_what_was_sampled_is_left_out() -> None:
    assert incidents_of(counters(Incident(0, "nic", 500, 600))) == []
