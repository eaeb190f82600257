"""Caches against plain reference simulators, on random strings of uses."""

import random

import pytest

from chakrakit.errors import ConfigError
from chakrakit.passes.tiers import Access, cached


def lru_misses(keys, room):
    held, misses = [], 0
    for key in keys:
        if key in held:
            held.remove(key)
        else:
            misses += 1
            if len(held) == room:
                held.pop(0)
        held.append(key)
    return misses


def belady_misses(keys, room):
    held, misses = set(), 0
    for i, key in enumerate(keys):
        if key in held:
            continue
        misses += 1
        if len(held) == room:
            later = keys[i + 1 :]
            next_use = {k: later.index(k) if k in later else len(keys) for k in held}
            held.remove(max(held, key=next_use.__getitem__))
        held.add(key)
    return misses


def strings(count):
    rng = random.Random(5)
    for _ in range(count):
        names = rng.randint(2, 9)
        yield [f"t{rng.randrange(names)}" for _ in range(rng.randint(1, 40))], rng.randint(1, 6)


@pytest.mark.parametrize(("policy", "reference"), [("lru", lru_misses), ("belady", belady_misses)])
def test_a_thousand_random_strings_miss_as_often_as_the_reference(policy, reference):
    for keys, room in strings(1000):
        outcome = cached([Access(k, 10) for k in keys], 10 * room, policy)
        assert outcome.hits.count(False) == reference(keys, room), (keys, room)


def test_no_policy_misses_less_than_belady_where_tensors_are_of_one_size():
    for keys, room in strings(200):
        uses = [Access(k, 10) for k in keys]
        misses = {
            p: cached(uses, 10 * room, p).hits.count(False)
            for p in ("lru", "belady", "partition", "min-pending")
        }
        assert min(misses.values()) == misses["belady"]


def test_bytes_add_up():
    """What is read is what was used and not found; what fits is never more than there is room."""
    rng = random.Random(1)
    for _ in range(100):
        sizes = {f"t{i}": rng.randint(1, 30) for i in range(8)}
        keys = [rng.choice(list(sizes)) for _ in range(60)]
        uses = [Access(k, sizes[k], rng.random() < 0.3) for k in keys]
        outcome = cached(uses, 50, "lru")
        found = sum(a.bytes for a, hit in zip(uses, outcome.hits, strict=True) if hit)
        new = sum(a.bytes for a, hit in zip(uses, outcome.hits, strict=True) if not hit)
        assert found + new == sum(a.bytes for a in uses)
        assert outcome.peak_bytes <= 50
        assert outcome.read_bytes(uses) <= new


def test_what_was_changed_is_written_back_when_it_leaves():
    uses = [Access("a", 10, True), Access("b", 10), Access("c", 10)]
    outcome = cached(uses, 20)
    assert outcome.written_back == [[], [], [("a", 10)]]
    assert outcome.written_bytes == 10


def test_a_tensor_larger_than_the_cache_passes_it_by():
    outcome = cached([Access("big", 100), Access("big", 100), Access("w", 200, True)], 50)
    assert outcome.hits == [False] * 3
    assert outcome.written_back[2] == [("w", 200)]
    assert outcome.peak_bytes == 0


def test_the_longest_unused_partition_leaves_first_and_what_has_uses_to_come_stays():
    parts = [Access(k, 10) for k in ("p/1", "q/1", "p/2", "r/1", "p/1", "q/1")]
    assert cached(parts, 30, "partition").hits == [False] * 4 + [True, False]
    used = [Access(k, 10) for k in ("often", "once", "new", "often", "often")]
    assert cached(used, 20, "min-pending").hits == [False, False, False, True, True]


def test_a_policy_of_ones_own_decides():
    class Newest:
        def __init__(self, keys):
            self.keys = []

        def used(self, key, now):
            self.keys = [k for k in self.keys if k != key] + [key]

        def victim(self):
            return self.keys[-1]

        def dropped(self, key):
            self.keys.remove(key)

    uses = [Access(k, 10) for k in "abca"]
    assert cached(uses, 20, Newest).hits == [False, False, False, True]
    with pytest.raises(ConfigError, match="did you mean 'belady'"):
        cached(uses, 20, "belay")
