"""Which share of what an operation reads is still in the cache."""

from __future__ import annotations

import pytest

from chakrakit.machines.device.launchers import LaunchedOperation, Touch
from chakrakit.machines.device.profile import DeviceCache
from chakrakit.operators import Operation


def work(reads: dict[int, int], writes: dict[int, int] | None = None) -> LaunchedOperation:
    touched = [tuple(Touch(s, b) for s, b in t.items()) for t in (reads, writes or {})]
    return LaunchedOperation((0,), Operation("elementwise", (), 0, 0), "aten::add", *touched)


def test_what_was_just_written_is_read_from_the_cache() -> None:
    cache = DeviceCache(1000)
    assert cache.resident(work({1: 100}, {2: 100})) == 0
    assert cache.resident(work({2: 100})) == 1
    assert cache.resident(work({1: 100, 7: 100})) == 0.5  # nobody has touched 7


def test_what_lies_further_back_than_the_cache_is_large_is_gone() -> None:
    cache = DeviceCache(1000)
    cache.resident(work({}, {1: 100}))
    cache.resident(work({}, {2: 2000}))
    assert cache.resident(work({1: 100})) == 0


def test_in_between_a_part_is_left() -> None:
    """700 bytes since, and half of its own 100: 750 of 1000 leave half of it."""
    cache = DeviceCache(1000)
    cache.resident(work({}, {1: 100}))
    cache.resident(work({}, {2: 700}))
    assert cache.resident(work({1: 100})) == pytest.approx(0.5)


def test_without_a_cache_or_without_reads_nothing_is_resident() -> None:
    cache = DeviceCache(0)
    cache.resident(work({}, {1: 100}))
    assert cache.resident(work({1: 100})) == 0
    assert DeviceCache(1000).resident(work({})) == 0
