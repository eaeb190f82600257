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


_COLUMNS = ("arrival_ps", "prompt", "output", "after", "priority", "adapter")
_OPTIONAL = ("continues", "group", "deadline_ps", "model", "tenant")


@dataclass(frozen=True, eq=False)
class Contents:
    """Prompts as pieces of content that are the same wherever they stand: ids, and tokens of each.

    Request r has those from offsets[r] to offsets[r + 1], in order from the beginning of its prompt.
    """

    ids: U64
    tokens: I64
    offsets: I64

    @classmethod
    def of(cls, pieces: Sequence[Sequence[tuple[int, int]]]) -> Contents:
        """From (id, tokens) of each piece of each prompt."""
        flat = [piece for prompt in pieces for piece in prompt]
        return cls(
            identifiers([i for i, _ in flat]),
            np.array([n for _, n in flat], np.int64),
            offsets_of([len(prompt) for prompt in pieces]),
        )

    def taken(self, order: NDArray[Any]) -> Contents:
        """Those of some requests, in this order."""
        offsets, place = _taken(self.offsets, order)
        return Contents(self.ids[place], self.tokens[place], offsets)


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestStream:
    """Requests in order of arrival, as parallel arrays.

    `after` is the request that must end before this one arrives (-1: none), or a row of several, which
    must all end; `arrival_ps` is then the time between the last of these ends and this arrival. `ids` name
    the content of each `unit` tokens of a prompt together with everything before it; request r has
    ids[offsets[r]:offsets[r + 1]]. With `concurrency`, times are ignored and a request arrives whenever
    another one ends.
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
    continues: I64 | None = None
    """The request whose prompt and output this prompt begins with; -1 for none. They share their cache."""
    group: I64 | None = None
    """Requests that are one task; -1 for none. A group has ended when its last request has."""
    deadline_ps: I64 | None = None
    """Time from its arrival, or that of its group's first, by which it is to have ended; -1 for none."""
    model: I64 | None = None
    """The place in `models` of the model that is asked for; -1 for any."""
    models: tuple[str, ...] = ()
    tenant: I64 | None = None
    """The place in `tenants` of whom the request is for; -1 for nobody."""
    tenants: tuple[str, ...] = ()
    contents: Contents | None = None
    """Prompts as pieces of content, for caches that find them wherever they stand."""

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def is_open(self) -> bool:
        """Whether all requests arrive at times of their own, whatever becomes of others."""
        waits = self.continues is not None and bool((self.continues >= 0).any())
        closed = self.concurrency or self.contents is not None
        return not (closed or waits or bool((self.after >= 0).any()))

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
        return self.reordered(np.arange(n))

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
            for name in (*_COLUMNS, *_OPTIONAL)
            if getattr(self, name) is not None
        }
        offsets, place = _taken(self.offsets, order)
        names = None if self.names is None else [self.names[i] for i in order.tolist()]
        contents = None if self.contents is None else self.contents.taken(order)
        ids = self.ids[place]
        return replace(self, **columns, offsets=offsets, ids=ids, names=names, contents=contents)


def _taken(offsets: I64, order: NDArray[Any]) -> tuple[I64, I64]:
    """Offsets of the parts of some requests in this order, and where each entry of them stood."""
    sizes, starts = np.diff(offsets)[order], offsets[:-1][order]
    taken = offsets_of(sizes)
    place = np.arange(int(taken[-1])) - np.repeat(taken[:-1], sizes)
    return taken, np.repeat(starts, sizes) + place


def offsets_of(sizes: Sequence[int] | I64) -> I64:
    """Where the entries of each request begin, and where the last one's end."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def rows_of_parents(after: Any) -> I64:
    """Requests to wait for: one number each, or a row of several, filled up with -1."""
    if all(np.ndim(parents) == 0 for parents in after):
        return np.asarray(after, np.int64)
    several = [list(np.atleast_1d(parents)) for parents in after]
    width = max(1, *(len(parents) for parents in several))
    return np.array([parents + [-1] * (width - len(parents)) for parents in several], np.int64)


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
    """A checked stream. Errors name the request's line in `where`, counted from `first_line`.

    `more` are further fields of `RequestStream`; `after` may have several requests for each, and
    `deadline_s` gives deadlines in seconds.
    """
    times = np.asarray(seconds, np.float64)
    after = rows_of_parents(more.pop("after", np.full(len(times), -1)))
    if "deadline_s" in more:
        more["deadline_ps"] = _deadlines(more.pop("deadline_s"), where)
    for name in ("continues", "group", "model", "tenant"):
        if more.get(name) is not None:
            more[name] = np.asarray(more[name], np.int64)
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
        offsets=offsets_of(sizes),
        ids=identifiers(flat),
        **more,
    )


def joined(parts: Sequence[RequestStream]) -> RequestStream:
    """Streams as one, whose requests are numbered on from part to part."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.after.reshape(len(part), -1).shape[1] for part in parts)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(p, name) for p in parts])
        for name in _COLUMNS
        if name != "after"
    }
    after = np.concatenate([_widened(part.after, len(part), width) for part in parts])
    optional: dict[str, Any] = {
        name: np.concatenate([_or_none(getattr(p, name), len(p)) for p in parts])
        for name in _OPTIONAL
        if any(getattr(p, name) is not None for p in parts)
    }
    return replace(
        parts[0],
        **columns,
        **optional,
        after=after,
        offsets=offsets_of(np.concatenate([np.diff(p.offsets) for p in parts])),
        ids=np.concatenate([p.ids for p in parts]),
        names=None,
        contents=None,
    )


_COPY = 0x9E3779B97F4A7C15
"""Added to the ids of content in each copy of a stream: 2⁶⁴ over the golden ratio, so that none meet."""


def repeated(stream: RequestStream, copies: int) -> RequestStream:
    """The requests again and again, a mean gap after the last; copies share no content."""
    if copies <= 1:
        return stream
    span = int(np.ptp(stream.arrival_ps))
    period = span + span // max(1, len(stream) - 1)
    parts = [
        replace(
            stream,
            arrival_ps=stream.arrival_ps + copy * period,
            ids=stream.ids + np.uint64(copy * _COPY % 2**64),
            group=None,
        )
        for copy in range(copies)
    ]
    return joined(parts)


def _widened(after: I64, count: int, width: int) -> I64:
    rows = after.reshape(count, -1)
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)


def _or_none(column: I64 | None, count: int) -> I64:
    return np.full(count, -1, np.int64) if column is None else column


def _deadlines(seconds: Any, where: str) -> I64:
    """Deadlines in picoseconds; NaN for none."""
    given = np.asarray(seconds, np.float64)
    if not (np.isnan(given) | ((given >= 0) & (given < MOST_SECONDS))).all():
        raise ConfigError(f"{where}: a deadline is 0 s or more, and below {MOST_SECONDS:,.0f} s")
    return np.where(np.isnan(given), -1, np.rint(given * PS_PER_S)).astype(np.int64)


def identifiers(flat: list[int]) -> U64:
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
    with_arrival = np.flatnonzero(after.reshape(len(times), -1).max(axis=1) < 0)
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
