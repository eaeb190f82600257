"""Moving keys and values between engines: a line through the simulator's times."""

from __future__ import annotations

import pytest

from chakrakit.serving.plan import Handover
from support.simulated import machine_of


@pytest.mark.parametrize("tokens", [(100, 1000), (500, 500)])
def test_a_token_takes_its_bytes_on_the_links_and_a_move_their_latency(tokens) -> None:
    """1,000 bytes per token at 10 GB/s, over a switch with two links of 1 µs."""
    found = Handover.between(machine_of("switch", 4), 1000.0, 2, tokens)
    assert found.seconds_per_token == pytest.approx(1e-7, rel=1e-3)
    assert found.latency == pytest.approx(2e-6, rel=1e-2)


def test_an_engine_on_the_same_device_needs_no_move() -> None:
    found = Handover.between(machine_of("switch", 1), 1000.0, 0, (100, 1000))
    assert (found.seconds_per_token, found.latency) == (0, 0)
