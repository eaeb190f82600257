"""How long collectives of a step take: asked of the simulator, linear between sizes."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import CollectiveType
from chakrakit.errors import ConfigError
from chakrakit.serving.steps import CollectiveTimes, times_on
from support.simulated import machine_of

SIZES = np.array([0.0, 10_000.0, 12_345.0])


@pytest.fixture
def times() -> CollectiveTimes:
    """Four devices behind a switch, 10 GB/s and 1 µs a link."""
    return CollectiveTimes(machine_of("switch", 4), own_all_reduce=True)


def test_a_message_takes_its_bytes_and_two_links(times: CollectiveTimes) -> None:
    found = times.message_seconds(SIZES, 0, 3)
    assert found.tolist() == pytest.approx([0, 3e-6, 3.2345e-6])
    assert times.message_seconds(SIZES, 2, 2).tolist() == [0, 0, 0]


def test_an_all_gather_of_two_sends_each_its_part(times: CollectiveTimes) -> None:
    found = times.seconds(CollectiveType.ALL_GATHER, SIZES, (0, 1))
    assert found.tolist() == pytest.approx([0, 3e-6, 3.2345e-6], rel=1e-2)
    assert times.seconds(CollectiveType.ALL_GATHER, SIZES, (0,)).tolist() == [0, 0, 0]


def test_two_exchange_small_buffers_whole_by_the_engine_s_own_kernel(
    times: CollectiveTimes,
) -> None:
    """8 MiB is its limit; what is larger goes through the library."""
    kind = CollectiveType.ALL_REDUCE
    sent = times.message_seconds(SIZES, 0, 1)
    assert times.seconds(kind, SIZES, (0, 1)).tolist() == sent.tolist()
    plain = CollectiveTimes(machine_of("switch", 4), own_all_reduce=False)
    large = np.array([64e6])
    assert times.seconds(kind, large, (0, 1)) == pytest.approx(plain.seconds(kind, large, (0, 1)))


def test_a_plan_larger_than_the_machine_is_refused(times: CollectiveTimes) -> None:
    with pytest.raises(ConfigError, match="the plan needs device 4; machine has 4 devices"):
        times.seconds(CollectiveType.ALL_REDUCE, SIZES, (0, 4))


def test_a_machine_remembers_what_it_was_asked() -> None:
    machine = machine_of("switch", 4)
    assert times_on(machine) is times_on(machine)
    assert times_on(machine, False) is not times_on(machine)
