"""One call from names to a result, and what its card says was asked for."""

import pytest

from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate
from support.simulated import collective, machine_of


def timed(**options):
    t = TraceBuilder()
    t.comp("w", start_ns=5, duration_ns=40)
    return simulate(
        TraceSet([t.build()]), None, options=SimulationOptions(**options), compute="measured"
    )


def test_where_all_times_are_measured_no_machine_is_needed():
    done = timed(communication="measured")
    assert done.makespan_ns == done.facts().makespan_ns == 40


def test_without_a_machine_nothing_is_said_of_one():
    """No peak to compare with, no power, no price, no memory."""
    found = timed(communication="measured").facts()
    assert found.machine == ""
    assert (found.mfu, found.energy_joules, found.price, found.fits) == (None,) * 4
    assert "device_memory_bytes" not in timed(communication="measured").settings


def test_else_a_machine_must_be_named():
    with pytest.raises(ConfigError, match="say what to simulate on: --machine"):
        timed()


def test_the_card_says_what_was_asked_for_and_what_came_of_it():
    asked = SimulationOptions(
        placement=(1, 0), network="analytical", settings={"jitter": 0.1, "placement": "file.json"}
    )
    done = simulate(
        collective(CollectiveType.ALL_REDUCE, 8, 2), machine_of("ring", 2), options=asked
    )
    card = done.run().card.settings
    assert {n: card[n] for n in ("network", "algorithms", "placement", "jitter")} == {
        "network": "analytical",
        "algorithms": "auto",
        "placement": [1, 0],
        "jitter": 0.1,
    }
    plain = simulate(collective(CollectiveType.ALL_REDUCE, 8, 2), machine_of("ring", 2)).settings
    assert not {"placement", "device_memory_bytes"} & set(plain)


def test_the_smallest_memory_is_kept_for_those_who_look_later():
    done = simulate(collective(CollectiveType.ALL_REDUCE, 8, 2), "dgx-h100")
    assert done.settings["device_memory_bytes"] == 80_000_000_000
