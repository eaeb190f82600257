"""A stream of requests: arrival times, lengths of prompts and outputs, and shared content.

It is independent of file formats. Times are picoseconds, as everywhere in the simulators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import F64, I64, U64
from chakrakit.errors import ConfigError
from chakrakit.machines.device import MOST_SECONDS, PS_PER_S

MOST_TOKENS = 2**40
"""Tokens of a prompt or output: far above any context, and sums over millions of requests fit 64 bits."""
MOST_UNIT = 2**31 - 2
"""Tokens of a block: the core counts them in 32 bits."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestStream:
    """Requests in order of arrival, as parallel arrays.

    `after` is the request that must end before this one arrives (-1: none); `arrival_ps` is then the
    time between that end and this arrival. `ids` name the content of each `unit` tokens of a prompt
    together with everything before it; request r has ids[offsets[r]:offsets[r + 1]]. With
    `concurrency`, times are ignored and a request arrives whenever another one ends.
    """

    arrival_ps: I64
    prompt: I64
    output: I64
    after: I64
    priority: I64
    adapter: I64
    offsets: I64
    ids: U64
    unit: int = 16
    concurrency: int = 0
    names: Sequence[str] | None = None
    """The names of requests in the file; by default their numbers."""
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.prompt)

    def scaled(self, rate: float = 1.0, prompt: float = 1.0, output: float = 1.0) -> RequestStream:
        """The same requests arriving `rate` times as fast, with lengths multiplied and rounded."""
        for name, factor in (("rate", rate), ("prompt", prompt), ("output", output)):
            if not 0 < factor < float("inf"):
                raise ConfigError(f"a {name} scale of {factor}; give a number above 0")
        if rate == prompt == output == 1:
            return self  # picoseconds are more than a float holds exactly
        scaled = self.arrival_ps / rate
        if scaled.max(initial=0.0) > MOST_SECONDS * PS_PER_S:
            raise ConfigError(
                f"a rate scale of {rate:g} puts the last arrival at {scaled.max() / PS_PER_S:,.0f} s; the "
                f"clock ends after {MOST_SECONDS:,} s: give a larger scale, or fewer requests"
            )
        times = np.rint(scaled).astype(np.int64)
        lengths = [
            _scaled_lengths(lengths, factor, name)
            for lengths, factor, name in (
                (self.prompt, prompt, "prompt"),
                (self.output, output, "output"),
            )
        ]
        return replace(self, arrival_ps=times, prompt=lengths[0], output=lengths[1])

    def first(self, count: int) -> RequestStream:
        """Only the first `count` requests."""
        if count < 1:
            raise ConfigError(f"the first {count} requests; give 1 or more")
        n = min(count, len(self))
        cut = {
            name: getattr(self, name)[:n]
            for name in ("arrival_ps", "prompt", "output", "after", "priority", "adapter")
        }
        ids = self.ids[: int(self.offsets[n])]
        names = None if self.names is None else self.names[:n]
        return replace(self, **cut, offsets=self.offsets[: n + 1], ids=ids, names=names)

    def spread(self, seconds: float, seed: int) -> RequestStream:
        """Arrivals moved later by up to `seconds`, evenly at random, for stamps that come in steps."""
        if not 0 <= seconds <= MOST_SECONDS:
            raise ConfigError(f"a spread of {seconds:g} s; give 0 to {MOST_SECONDS:,} s")
        rng = np.random.default_rng((seed, 11))
        moved = self.arrival_ps + (rng.random(len(self)) * seconds * PS_PER_S).astype(np.int64)
        if (self.after >= 0).any():
            raise ConfigError("sessions cannot be spread: a turn follows its predecessor")
        return self.reordered(np.argsort(moved, kind="stable"), arrival_ps=moved)

    def reordered(self, order: NDArray[Any], **changed: Any) -> RequestStream:
        """The requests in another order; `changed` replaces columns, in the old order."""
        columns = {
            name: np.asarray(changed.get(name, getattr(self, name)))[order]
            for name in ("arrival_ps", "prompt", "output", "after", "priority", "adapter")
        }
        sizes = np.diff(self.offsets)
        starts = self.offsets[:-1][order]
        offsets = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
        place = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], sizes[order])
        ids = self.ids[np.repeat(starts, sizes[order]) + place]
        names = None if self.names is None else [self.names[i] for i in order.tolist()]
        return replace(self, **columns, offsets=offsets, ids=ids, names=names)


def stream_of(
    seconds: Sequence[float] | NDArray[Any],
    prompt: Sequence[float] | NDArray[Any],
    output: Sequence[float] | NDArray[Any],
    *,
    ids: Sequence[Sequence[int]] | None = None,
    where: str = "requests",
    first_line: int = 1,
    **more: Any,
) -> RequestStream:
    """A checked stream. Errors name the request's line in `where`, counted from `first_line`."""
    times = np.asarray(seconds, np.float64)
    after = np.asarray(more.pop("after", np.full(len(times), -1)), np.int64)
    check_lengths(prompt, "prompt", where, first_line)
    check_lengths(output, "output", where, first_line)
    _check_times(times, after, where, first_line)
    _check_unit(more.get("unit", 1), where)
    sizes = [0] * len(times) if ids is None else [len(i) for i in ids]
    flat = [] if ids is None else [i for prompt_ids in ids for i in prompt_ids]
    none = np.zeros(len(times), np.int64)
    return RequestStream(
        arrival_ps=np.rint(times * PS_PER_S).astype(np.int64),
        prompt=np.asarray(prompt, np.int64),
        output=np.asarray(output, np.int64),
        after=after,
        priority=np.asarray(more.pop("priority", none), np.int64),
        adapter=np.asarray(more.pop("adapter", none - 1), np.int64),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        ids=_identifiers(flat),
        **more,
    )


def _identifiers(flat: list[int]) -> U64:
    """Ids of content as 64-bit numbers; of larger and negative ones the low 64 bits."""
    try:
        return np.array(flat, np.uint64) if flat else np.zeros(0, np.uint64)
    except (OverflowError, ValueError):
        return np.array([i & (2**64 - 1) for i in flat], np.uint64)


def _check_unit(unit: int, where: str) -> None:
    if not 1 <= unit <= MOST_UNIT:
        raise ConfigError(f"{where}: blocks of {unit} tokens; give 1 to {MOST_UNIT:,}")


def check_lengths(values: Any, part: str, where: str, first_line: int) -> None:
    """Raises an error unless all lengths are whole numbers from 1 on."""
    array = np.asarray(values, np.float64)
    wrong = ~((array >= 1) & (array <= MOST_TOKENS) & (array == np.floor(array)))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        length = "nothing" if np.isnan(array[i]) else f"{array[i]:g}"
        raise ConfigError(
            f"{where}, line {first_line + i}: {part} length is {length}; it must be a whole number, 1 or more"
        )


def _check_times(times: NDArray[np.float64], after: I64, where: str, first_line: int) -> None:
    if len(times) == 0:
        raise ConfigError(f"{where}: no requests")
    wrong = ~((times >= 0) & (times < MOST_SECONDS))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise ConfigError(
            f"{where}, line {first_line + i}: arrival at {times[i]} s; it must be 0 or later, "
            f"and before {MOST_SECONDS:,.0f} s"
        )
    with_arrival = np.flatnonzero(after < 0)
    back = np.flatnonzero(np.diff(times[with_arrival]) < 0)
    if len(back):
        i, j = int(with_arrival[back[0]]), int(with_arrival[back[0] + 1])
        raise ConfigError(
            f"{where}, line {first_line + j}: time goes backwards, from {times[i]:.9g} s "
            f"to {times[j]:.9g} s; sort the requests by arrival"
        )


def _scaled_lengths(lengths: I64, factor: float, name: str) -> I64:
    scaled: F64 = np.maximum(1, np.rint(lengths * factor))
    if scaled.max(initial=0.0) > MOST_TOKENS:
        raise ConfigError(
            f"a {name} scale of {factor:g} makes one of {scaled.max():,.0f} tokens; at most {MOST_TOKENS:,}"
        )
    return scaled.astype(np.int64)
