"""TraceSet: the programs of all ranks. Ranks with the same program share one body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import Any, cast

from chakrakit.errors import TraceError, listed, nearest
from chakrakit.parallel import Workers, spread
from chakrakit.results import SHOWN_ROWS, counted, table_html
from chakrakit.trace.communication import (
    EQUAL_SIZES,
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
    """Bodies kept in memory; most sets fit, and a laptop can spare them."""

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
        ascending = all(
            a < b for a, b in pairwise(bindings)
        )  # a million of them need no second list
        self.bindings = dict(bindings if ascending else sorted(bindings.items()))
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
        builders: Written | Sequence[Written] | Mapping[int, Written] | Mapping[str, Written],
        *,
        ranks: int = 1,
        groups: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None = None,
        names: Sequence[str] = (),
    ) -> TraceSet:
        """Traces written by hand as a set: one for each rank, or one that `ranks` ranks run alike.

        Ranks may have names, which messages can use: `TraceSet.of({"client": a, "server": b})`. They are
        numbered in that order, or in the order of `names`, such as a machine's `device_names`.
        `groups` gives a `pg_name` its ranks, or several lists of ranks, of which a rank means the one that
        it is in: `groups={"node": [[0, 1], [2, 3]]}`. A builder that stands for several ranks is built once.
        """
        if isinstance(builders, (Trace, TraceBuilder)):
            given: dict[Any, Written] = dict.fromkeys(range(ranks), builders)
        else:
            given = dict(builders) if isinstance(builders, Mapping) else dict(enumerate(builders))
        called = {
            name: i for i, name in enumerate(names or [k for k in given if isinstance(k, str)])
        }
        by_rank = {_rank_of(key, called): one for key, one in given.items()}
        distinct = {id(one): one for one in by_rank.values()}
        numbers = {key: number for number, key in enumerate(distinct)}
        bodies = [
            one.build(called) if isinstance(one, TraceBuilder) else one for one in distinct.values()
        ]
        named, roles = _groups(groups or {}, by_rank)
        bindings = {r: Binding(numbers[id(one)], roles[r]) for r, one in by_rank.items()}
        return cls(bodies, bindings, Groups(named))

    def mixed(self, others: Mapping[int, TraceSet]) -> TraceSet:
        """The same set, in which some ranks run what they run in another one: `{rank: other}`.

        So ranks of one job can have different lengths, plans or devices. Groups of one name must have the
        same ranks in all sets. A TraceError says where collectives or messages no longer meet.
        """
        bodies, bindings, groups = list(self._bodies), dict(self.bindings), self.groups
        begins: dict[int, int] = {}
        for rank, other in others.items():
            if id(other) not in begins:
                begins[id(other)] = len(bodies)
                bodies += other.bodies
                groups = _same_groups(groups, other.groups)
            own = other.bindings.get(rank)
            if own is None or rank not in bindings:
                raise TraceError(f"rank {rank} is not in both sets; there are {listed(self.ranks)}")
            bindings[rank] = replace(own, body=begins[id(other)] + own.body)
        found = TraceSet(bodies, bindings, groups, self.card)
        _refuse_unmet(found)
        return found

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
        last = next(reversed(self.bindings), -1)
        return max([last, *(max(ranks, default=-1) for ranks in self.groups.values())]) + 1

    @cached_property
    def missing_ranks(self) -> tuple[int, ...]:
        """Ranks that the groups name and that are not in the set."""
        group_ranks = {r for ranks in self.groups.values() for r in ranks}
        return tuple(sorted(group_ranks - set(self.ranks)))

    def body_at(self, number: int) -> Trace:
        """A body by its number."""
        body = self._bodies[number]
        if isinstance(body, Trace):
            return body
        new = number not in self._loaded
        # Put back at the end: the first is the one not used for longest.
        self._loaded[number] = trace = body() if new else self._loaded.pop(number)
        if new:
            self._loaded_bytes += trace.table.nbytes
            self._forget()
        return trace

    def reader_of(self, number: int) -> Body:
        """A body if it is in memory, else the function that reads it; both can be sent to a worker."""
        return self._loaded.get(number, self._bodies[number])

    def nodes_if_loaded(self, number: int) -> int | None:
        """How many nodes a body has; None for one that is not in memory."""
        body = self._bodies[number]
        trace = body if isinstance(body, Trace) else self._loaded.get(number)
        return None if trace is None else len(trace)

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
        """Keeps no body in memory during the block, for work that uses each of them once."""
        cache_bytes, self.cache_bytes = self.cache_bytes, 0
        try:
            yield
        finally:
            self.cache_bytes = cache_bytes

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
        """Stores the communication of a body that a worker has read."""
        self._calls.setdefault(number, calls)

    def read_calls(self, workers: Workers | None) -> None:
        """Reads the communication of all bodies on workers, so that what asks for it next need not."""
        if workers is not None:
            numbers = [n for n, _ in self.shares() if n not in self._calls]
            calls = spread(read_calls, (self.reader_of(n) for n in numbers), workers)
            self._calls.update(zip(numbers, calls, strict=True))

    def shares(self) -> list[tuple[int, dict[int, Binding]]]:
        """Each body in use, and the ranks that run it; by lowest rank."""
        by_body: dict[int, dict[int, Binding]] = {}
        for rank, binding in self.bindings.items():
            by_body.setdefault(binding.body, {})[rank] = binding
        return list(by_body.items())

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


def _rank_of(key: int | str, called: Mapping[str, int]) -> int:
    if not isinstance(key, str):
        return int(key)
    if key not in called:
        raise TraceError(f"no rank is called {key!r}; {nearest(key, called)}")
    return called[key]


def _same_groups(ours: Groups, theirs: Groups) -> Groups:
    """Both; a TraceError where a name means different ranks."""
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name]:
            raise TraceError(
                f"group {name!r} has ranks {listed(ours[name])} here and {listed(theirs[name])} there; "
                "sets that are mixed need the same plan"
            )
    return ours.merged(theirs)


def _refuse_unmet(traces: TraceSet) -> None:
    """A TraceError where a collective or message of the set has no counterpart, or another one."""
    calls = traces.collectives.calls
    columns = [calls.column(n).to_numpy() for n in ("instance", "comm_type", "comm_size", "rank")]
    together: dict[int, list[tuple[int, int, int]]] = {}
    for instance, *call in zip(*columns, strict=True):
        together.setdefault(int(instance), []).append(tuple(int(v) for v in call))  # type: ignore[arg-type]
    for row, members in zip(
        traces.collectives.instances.to_pylist(), together.values(), strict=True
    ):
        where = f"collective {row['seq']} of group {row['group'] or 'all'!r}"
        kinds, ranks = {c[0] for c in members}, sorted(c[2] for c in members)
        group = traces.groups.ranks_of(row["group"], traces.ranks) or ()
        if missing := set(group) - set(ranks):
            raise TraceError(f"{where}: rank {min(missing)} never arrives; it runs another program")
        if len(kinds) > 1 or (kinds <= EQUAL_SIZES and len({c[1] for c in members}) > 1):
            raise TraceError(f"{where}: ranks {listed(ranks)} do not agree on its type and size")
    ends = traces.collectives.messages.column("message").to_numpy()
    if lonely := [int(m) for m in set(ends.tolist()) if (ends == m).sum() != 2]:
        row = traces.collectives.messages.filter(ends == lonely[0]).to_pylist()[0]
        raise TraceError(f"a message from rank {row['src']} to rank {row['dst']} has one end only")


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
