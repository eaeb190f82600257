"""Two caches in one memory: what leaves, what a moved border costs, and what a controller sees."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving import CachePair, Service
from chakrakit.serving.requests import stream_of


def test_a_cache_that_shrinks_loses_what_it_used_least_recently() -> None:
    pair = CachePair(memory=100, entry_bytes=(10, 20), share=0.5)
    assert pair.request(range(5), [7, 8]) == (5, 2, 0.0)
    assert pair.request(range(5), [7, 8]) == (0, 0, 0.0)
    assert pair.divide(0.2) == 0.0  # two entries of the first, four of the second
    assert pair.request([4, 3], [9, 10]) == (0, 2, 0.0)
    assert pair.request([0], [7, 8, 9, 10]) == (1, 0, 0.0)


def test_an_eager_refill_brings_back_what_left_last_and_says_its_bytes() -> None:
    pair = CachePair(memory=200, entry_bytes=(10, 10), share=0.5, eager=True)
    pair.request(range(10), [])
    pair.divide(0.4)  # 0 and 1 leave, and are remembered
    assert pair.divide(0.5) == 20
    assert pair.request(range(10), [])[0] == 0


def test_a_controller_sees_near_misses_and_moves_the_border() -> None:
    """Twelve entries take turns where eleven have room: all miss, and all had left just before."""
    seen = []

    def more(pair: CachePair) -> float:
        seen.append((pair.caches[0].misses, pair.caches[0].near_misses))
        return pair.share + 0.1

    pair = CachePair(memory=220, entry_bytes=(10, 10), share=0.5, controller=more, every=3)
    missed = [pair.request(range(12), [])[0] for _ in range(5)]
    assert seen == [(36, 24)]
    assert missed == [12, 12, 12, 1, 0]


def test_it_agrees_with_a_plain_list_on_random_requests() -> None:
    rng = np.random.default_rng(4)
    pair = CachePair(memory=64, entry_bytes=(2, 4), share=0.5)
    kept: tuple[list[int], list[int]] = ([], [])
    rooms = [16, 8]
    for _ in range(400):
        if rng.random() < 0.1:
            share = float(rng.integers(0, 5)) / 4
            pair.divide(share)
            rooms = [int(share * 64 // 2), int((1 - share) * 64 // 4)]
        asked = [rng.integers(0, 24, 4).tolist(), rng.integers(0, 12, 2).tolist()]
        expected = []
        for keys, have, room in zip(asked, kept, rooms, strict=True):
            del have[: max(0, len(have) - room)]
            misses = 0
            for key in keys:
                misses += key not in have
                have[:] = [*(k for k in have if k != key), key][-room:] if room else []
            expected.append(misses)
        assert pair.request(*asked)[:2] == tuple(expected)


def test_a_service_takes_the_time_of_what_is_missing() -> None:
    """Two requests of the same user: the second finds what the first brought."""
    pair = CachePair(memory=100, entry_bytes=(10, 50))
    stream = stream_of([0.0, 1.0], [1, 1], [1, 1], adapter=[0, 1])

    def seconds(_items: int, requests: object) -> float:
        missed = pair.request([1, 2], [3])
        return 0.001 + 0.002 * missed[0] + 0.01 * missed[1]

    done = Service(seconds).served(stream).outcome.requests
    assert ((done["finish"] - done["arrival"]) * 1e-9).tolist() == pytest.approx([15.0, 1.0])


@pytest.mark.parametrize("wrong", [{"memory": 0}, {"entry_bytes": (0, 1)}, {"share": 1.5}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="a CachePair"):
        CachePair(**{"memory": 10, "entry_bytes": (1, 1), **wrong})  # type: ignore[arg-type]
