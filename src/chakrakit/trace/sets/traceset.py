"""TraceSet: what is to be done, on all ranks. Ranks with the same program share one body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from numbers import Integral
from typing import Any, cast

from chakrakit.errors import TraceError, listed
from chakrakit.parallel import Workers, spread
from chakrakit.results import SHOWN_ROWS, counted, table_html
from chakrakit.trace.communication import (
    MAX_RANKS,
    Binding,
    Body,
    Calls,
    Collectives,
    Communication,
    Groups,
    bind,
    read_calls,
    tables_of,
)
from chakrakit.trace.model import Trace, TraceBuilder
from chakrakit.trace.sets.card import Card

Written = Trace | TraceBuilder
"""What a person writes for a rank."""


class TraceSet:
    """Bodies, and for each rank the body it runs with its own groups and peers.

    Immutable. Bodies given as functions are read when first needed; the most recent ones stay in
    memory up to `cache_bytes`, so that a set much larger than memory can be walked rank by rank.
    """

    cache_bytes = 2 << 30

    def __init__(
        self,
        bodies: Sequence[Body],
        bindings: Mapping[int, Binding] | None = None,
        groups: Groups | None = None,
        card: Card | None = None,
    ) -> None:
        self._bodies = tuple(bodies)
        self._loaded: dict[int, Trace] = {}
        self._loaded_bytes = 0
        self._calls: dict[int, Calls] = {}
        if bindings is None:
            bindings = {i: Binding(i) for i in range(len(bodies))}
        self.bindings = dict(sorted(bindings.items()))
        self.groups = groups or Groups()
        self.card = card or Card()
        for rank, binding in self.bindings.items():
            if not 0 <= rank < MAX_RANKS:
                raise TraceError(f"rank {rank}; ranks are numbers from 0 to {MAX_RANKS - 1:,}")
            if not 0 <= binding.body < len(self._bodies):
                raise TraceError(f"rank {rank} runs body {binding.body} of {len(self._bodies)}")

    @classmethod
    def of(
        cls,
        builders: Written | Sequence[Written] | Mapping[int, Written],
        *,
        ranks: int = 1,
        groups: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None = None,
    ) -> TraceSet:
        """Traces written by hand as a set: one for each rank, or one that `ranks` ranks run alike.

        `groups` gives a `pg_name` its ranks, or several lists of ranks, of which a rank means the one that
        it is in: `groups={"node": [[0, 1], [2, 3]]}`. A builder that stands for several ranks is built once.
        """
        if isinstance(builders, (Trace, TraceBuilder)):
            by_rank: dict[int, Written] = dict.fromkeys(range(ranks), builders)
        else:
            by_rank = dict(builders) if isinstance(builders, Mapping) else dict(enumerate(builders))
        distinct = {id(one): one for one in by_rank.values()}
        numbers = {key: number for number, key in enumerate(distinct)}
        bodies = [
            one.build() if isinstance(one, TraceBuilder) else one for one in distinct.values()
        ]
        named, roles = _groups(groups or {}, by_rank)
        bindings = {r: Binding(numbers[id(one)], roles[r]) for r, one in by_rank.items()}
        return cls(bodies, bindings, Groups(named))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are here, ascending."""
        return tuple(self.bindings)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The distinct programs, or what reads them; for another set that shares them."""
        return self._bodies

    @property
    def body_count(self) -> int:
        """How many distinct programs there are."""
        return len(self._bodies)

    @cached_property
    def world_size(self) -> int:
        """One more than the highest rank that the traces or the groups name."""
        named = [r for ranks in self.groups.values() for r in ranks]
        return max([*self.ranks, *named], default=-1) + 1

    @cached_property
    def missing_ranks(self) -> tuple[int, ...]:
        """Ranks that the groups name and nobody recorded."""
        named = {r for ranks in self.groups.values() for r in ranks}
        return tuple(sorted(named - set(self.ranks)))

    def body_at(self, number: int) -> Trace:
        """A body by its number."""
        body = self._bodies[number]
        if isinstance(body, Trace):
            return body
        new = number not in self._loaded
        # Put back at the end: the first is the one not used for longest.
        self._loaded[number] = found = body() if new else self._loaded.pop(number)
        if new:
            self._loaded_bytes += found.table.nbytes
            self._forget()
        return found

    def reader_of(self, number: int) -> Body:
        """A body if it is in memory, else what reads it: one of the two that can go to a worker."""
        return self._loaded.get(number, self._bodies[number])

    def nodes_if_loaded(self, number: int) -> int | None:
        """How many nodes a body has; None for one that is not in memory."""
        body = self._bodies[number]
        found = body if isinstance(body, Trace) else self._loaded.get(number)
        return None if found is None else len(found)

    def _forget(self) -> None:
        """Drops the bodies not used for longest once there are too many bytes of them."""
        while self._loaded_bytes > self.cache_bytes and len(self._loaded) > 1:
            oldest = self._loaded.pop(next(iter(self._loaded)))
            self._loaded_bytes -= oldest.table.nbytes

    def body(self, rank: int) -> Trace:
        """The program a rank runs, with the body's own group and peer names."""
        return self.body_at(self._binding(rank).body)

    def trace(self, rank: int) -> Trace:
        """A rank's own trace: its body with its groups, peers and scale filled in."""
        return bind(self.body(rank), self._binding(rank))

    def _binding(self, rank: int) -> Binding:
        try:
            return self.bindings[rank]
        except KeyError:
            raise TraceError(f"no rank {rank}; there are {listed(self.ranks)}") from None

    def __iter__(self) -> Iterator[tuple[int, Trace]]:
        """(rank, trace) in ascending order."""
        return ((rank, self.trace(rank)) for rank in self.ranks)

    @contextmanager
    def uncached(self) -> Iterator[None]:
        """While every body is used once, none is kept for later: it would only take room."""
        kept, self.cache_bytes = self.cache_bytes, 0
        try:
            yield
        finally:
            self.cache_bytes = kept

    def __len__(self) -> int:
        return len(self.bindings)

    def __getitem__(self, rank: int) -> Trace:
        return self.trace(rank)

    def to_networkx(self, rank: int | None = None) -> Any:
        """The graph of one rank (by default the lowest) as a `networkx.MultiDiGraph` over node ids."""
        return self.trace(self.ranks[0] if rank is None else rank).to_networkx()

    @cached_property
    def collectives(self) -> Collectives:
        """Every collective and message of the set, matched across ranks."""
        return tables_of(self.communication)

    @cached_property
    def communication(self) -> Communication:
        """Every rank's calls with its groups and peers, resolved once."""
        return Communication(self.bindings, self.groups, self.world_size, self.calls_at)

    def calls_at(self, number: int) -> Calls:
        """The communication of a body, by its number."""
        if number not in self._calls:
            self._calls[number] = read_calls(self.body_at(number))
        return self._calls[number]

    def keep_calls(self, number: int, calls: Calls) -> None:
        """Takes the communication of a body that a worker has read."""
        self._calls.setdefault(number, calls)

    def read_calls(self, workers: Workers | None) -> None:
        """Reads the communication of all bodies on workers, so that what asks for it next need not."""
        if workers is not None:
            numbers = [n for n, _ in self.shares() if n not in self._calls]
            found = spread(read_calls, (self.reader_of(n) for n in numbers), workers)
            self._calls.update(zip(numbers, found, strict=True))

    def shares(self) -> list[tuple[int, dict[int, Binding]]]:
        """Each body in use, and the ranks that run it; by lowest rank."""
        found: dict[int, dict[int, Binding]] = {}
        for rank, binding in self.bindings.items():
            found.setdefault(binding.body, {})[rank] = binding
        return list(found.items())

    def select_ranks(self, ranks: Sequence[int]) -> TraceSet:
        """Some of the ranks; the groups stay, so the others count as missing."""
        return self._with({r: self._binding(r) for r in ranks})

    def with_card(self, card: Card) -> TraceSet:
        """The same under another card."""
        return TraceSet(self._bodies, self.bindings, self.groups, card)

    def with_groups(self, groups: Groups) -> TraceSet:
        """The same with other groups."""
        return TraceSet(self._bodies, self.bindings, groups, self.card)

    def _with(self, bindings: Mapping[int, Binding]) -> TraceSet:
        return TraceSet(self._bodies, bindings, self.groups, self.card)

    def __repr__(self) -> str:
        bodies = counted(self.body_count, "body", "bodies")
        folded = f" in {bodies}" if self.body_count < len(self) else ""
        missing = f", {len(self.missing_ranks):,} not recorded" if self.missing_ranks else ""
        size = f"{counted(len(self), 'rank')}{folded}, {counted(len(self.groups), 'group')}"
        return f"{type(self).__name__}({size}{missing})"

    def _repr_html_(self) -> str:
        rows = []
        for rank, binding in list(self.bindings.items())[:SHOWN_ROWS]:
            nodes = self.nodes_if_loaded(binding.body)
            rows.append((rank, binding.body, "" if nodes is None else f"{nodes:,}"))
        more = f" · first {SHOWN_ROWS} ranks shown" if len(self.ranks) > SHOWN_ROWS else ""
        return table_html(("rank", "body", "nodes"), rows, repr(self) + more)


def _groups(
    groups: Mapping[str, Sequence[int] | Sequence[Sequence[int]]], ranks: Iterable[int]
) -> tuple[dict[str, Sequence[int]], dict[int, dict[str, str]]]:
    """Every group by a name of its own, and what each rank means by the names that were given."""
    named: dict[str, Sequence[int]] = {}
    roles: dict[int, dict[str, str]] = {rank: {} for rank in ranks}
    for role, members in groups.items():
        if all(isinstance(m, Integral) for m in members):
            named[role] = cast("Sequence[int]", members)
            continue
        for number, some in enumerate(cast("Sequence[Sequence[int]]", members)):
            named[f"{role} {number}"] = some
            for rank in some:
                if role in roles.setdefault(rank, {}):
                    raise TraceError(f"rank {rank} is in two groups {role!r}; it can be in one")
                roles[rank][role] = f"{role} {number}"
    return named, roles
