"""Batchers: samples in, micro-batches out. Every sample is in exactly one micro-batch.

A batcher is a generator over a stream of samples. It looks at `window` samples at a time, as a data loader
with a buffer does, and knows no lengths beyond them.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from chakrakit.errors import ConfigError
from chakrakit.workloads.samples.sample import Sample


@dataclass(frozen=True)
class MicroBatch:
    """Samples that pass the model together.

    Padded, each takes as much room as the longest of them; packed, they lie one behind the other in a
    sequence of `room` and attend only within themselves.
    """

    samples: tuple[Sample, ...]
    packed: bool = False
    room: int = 0

    @property
    def length(self) -> int:
        """Of the longest sample; of the sequence where samples are packed."""
        return self.room if self.packed else max(s.length for s in self.samples)

    @property
    def rows(self) -> int:
        """Sequences side by side."""
        return 1 if self.packed else len(self.samples)

    @property
    def own(self) -> int:
        """What the samples themselves measure, without padding."""
        return sum(s.length for s in self.samples)

    @property
    def cost(self) -> float:
        """Work against samples of a cost of 1."""
        return sum(s.cost * s.length for s in self.samples) / self.own

    def halves(self) -> tuple[MicroBatch, MicroBatch]:
        """The same samples as two micro-batches."""
        middle = len(self.samples) // 2
        parts = (self.samples[:middle], self.samples[middle:])
        first, second = (MicroBatch(part, self.packed, self.room) for part in parts)
        return first, second


@dataclass(frozen=True)
class Limits:
    """What bounds a micro-batch. Sizes are in tokens: `unit` of them are one unit of a sample's length."""

    count: int
    budget: int
    most_work: float
    power: float
    window: int
    unit: int
    room: int
    seed: int = 0

    def fits(self, rows: int, length: int) -> bool:
        """Whether so many rows of a length keep within the budget of padded tokens."""
        return rows * length * self.unit <= self.budget

    def works(self, rows: int, length: int) -> bool:
        """Whether B × S^p ≤ M also holds."""
        work: float = float(length * self.unit) ** self.power
        return self.fits(rows, length) and rows * work <= self.most_work * (1 + 1e-9)


Samples = Iterable[Sample]
Batcher = Callable[[Samples, Limits], Iterator[MicroBatch]]


def fixed(samples: Samples, limits: Limits) -> Iterator[MicroBatch]:
    """`micro_batch` samples as they come."""
    yield from (MicroBatch(part) for part in _batched(samples, limits.count))


def tokens(samples: Samples, limits: Limits) -> Iterator[MicroBatch]:
    """Samples of like lengths up to the budget, from windows sorted by length."""
    return _by_windows(samples, limits, lambda window: _grouped(window, limits.fits))


def power(samples: Samples, limits: Limits) -> Iterator[MicroBatch]:
    """The same up to B × S^p ≤ M, and within the budget."""
    return _by_windows(samples, limits, lambda window: _grouped(window, limits.works))


def _by_windows(
    samples: Samples, limits: Limits, group: Callable[[list[Sample]], Iterable[MicroBatch]]
) -> Iterator[MicroBatch]:
    """The groups of every sorted window, shuffled: neither long nor short samples come first."""
    chance = random.Random(limits.seed)
    for window in _batched(samples, limits.window):
        batches = list(group(sorted(window, key=_by_length)))
        chance.shuffle(batches)
        yield from batches


def online(samples: Samples, limits: Limits) -> Iterator[MicroBatch]:
    """The buffer is always full; the oldest sample is next, and those nearest to it in length join it."""
    source = iter(samples)
    buffer = [(s.length, s.number, s) for s in itertools.islice(source, limits.window)]
    buffer.sort()
    while buffer:
        at = min(range(len(buffer)), key=lambda i: buffer[i][1])
        taken = _nearest(buffer, at, limits)
        yield MicroBatch(tuple(sorted((row[2] for row in taken), key=_by_length)))
        for sample in itertools.islice(source, len(taken)):
            insort(buffer, (sample.length, sample.number, sample))


def _nearest(
    buffer: list[tuple[int, int, Sample]], at: int, limits: Limits
) -> list[tuple[int, int, Sample]]:
    """Takes a stretch of the buffer around a place, shorter samples first, as long as it fits."""
    low = high = at
    while True:
        longest = buffer[high][0]
        if low > 0 and limits.fits(high - low + 2, longest):
            low -= 1
        elif high + 1 < len(buffer) and limits.fits(high - low + 2, buffer[high + 1][0]):
            high += 1
        else:
            break
    taken = buffer[low : high + 1]
    del buffer[low : high + 1]
    return taken


def best_fit(samples: Samples, limits: Limits) -> Iterator[MicroBatch]:
    """Samples packed into sequences: the longest of a window first, each where the least room is left."""
    return _by_windows(samples, limits, lambda window: _packed(window, limits.room))


def _packed(window: list[Sample], room: int) -> Iterator[MicroBatch]:
    free: list[tuple[int, int]] = []
    sequences: list[list[Sample]] = []
    for sample in reversed(window):
        place = bisect_left(free, (sample.length, -1))
        if place == len(free):
            insort(free, (room - sample.length, len(sequences)))
            sequences.append([sample])
        else:
            left, number = free.pop(place)
            sequences[number].append(sample)
            insort(free, (left - sample.length, number))
    yield from (MicroBatch(tuple(s), packed=True, room=room) for s in sequences)


def _grouped(samples: Iterable[Sample], fits: Callable[[int, int], bool]) -> Iterator[MicroBatch]:
    """Neighbours of a sorted list, as many together as fit."""
    group: list[Sample] = []
    for sample in samples:
        if group and not fits(len(group) + 1, max(group[-1].length, sample.length)):
            yield MicroBatch(tuple(group))
            group = []
        if not fits(1, sample.length):
            raise ConfigError(
                f"a sample of length {sample.length:,} alone is more than a micro-batch may hold; raise "
                "budget or longest_batch, or cut samples with seq"
            )
        group.append(sample)
    if group:
        yield MicroBatch(tuple(group))


def _by_length(sample: Sample) -> tuple[int, int]:
    return sample.length, sample.number


def _batched(samples: Samples, count: int) -> Iterator[tuple[Sample, ...]]:
    source = iter(samples)
    while part := tuple(itertools.islice(source, count)):
        yield part


def checked(batcher: Batcher, name: str) -> Batcher:
    """A batcher of the user's, whose micro-batches are looked at as they come."""

    def looked_at(samples: Samples, limits: Limits) -> Iterator[MicroBatch]:
        emitted: set[int] = set()
        for number, batch in enumerate(batcher(samples, limits)):
            where = f"batcher {name}, micro-batch {number}"
            if not isinstance(batch, MicroBatch) or not batch.samples:
                raise ConfigError(
                    f"{where}: should be a MicroBatch of at least one sample, not {str(batch)[:60]}"
                )
            again = [s.number for s in batch.samples if s.number in emitted]
            if again or len({s.number for s in batch.samples}) < len(batch.samples):
                raise ConfigError(f"{where}: holds a sample twice; every sample is emitted once")
            if batch.packed and not batch.own <= batch.room <= limits.room:
                raise ConfigError(
                    f"{where}: {batch.own:,} tokens packed into a room of {batch.room:,}; they must fit, and "
                    f"seq {limits.room:,} is the most"
                )
            emitted.update(s.number for s in batch.samples)
            yield batch

    return looked_at


BATCHERS: dict[str, Batcher] = {
    "fixed": fixed,
    "tokens": tokens,
    "power": power,
    "online": online,
    "best-fit": best_fit,
}
