"""TraceSet: what is to be done, on all ranks. Ranks with the same program share one body."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.errors import TraceError
from chakrakit.trace.card import Card
from chakrakit.trace.groups import MAX_RANKS, Groups
from chakrakit.trace.schema import NodeType
from chakrakit.trace.trace import Trace

if TYPE_CHECKING:
    from chakrakit.parallel import Workers
    from chakrakit.trace.collectives import Collectives

Body = Trace | Callable[[], Trace]


@dataclass(frozen=True)
class Binding:
    """How a rank runs a body: what differs between the ranks that share it.

    `groups` maps a `pg_name` in the body to the rank's own group, `peers` a `comm_src`/`comm_dst` in
    the body to a rank; what they do not name stays as it is. `scale` multiplies the durations,
    `num_ops` and `tensor_size` of compute nodes.
    """

    body: int
    groups: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[int, int] = field(default_factory=dict)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise TraceError(f"a scale of {self.scale}; it should be 0 or more, and finite")

    @property
    def is_plain(self) -> bool:
        """Whether the rank's trace is the body as it stands."""
        return not self.groups and not self.peers and self.scale == 1.0


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
        self._matched: Collectives | None = None
        if bindings is None:
            bindings = {i: Binding(i) for i in range(len(bodies))}
        self.bindings = dict(sorted(bindings.items()))
        self.groups = groups or Groups()
        self.card = card or Card()
        for rank, binding in self.bindings.items():
            if not 0 <= rank < MAX_RANKS:
                raise TraceError(f"rank {rank}; ranks are numbers from 0")
            if not 0 <= binding.body < len(self._bodies):
                raise TraceError(f"rank {rank} runs body {binding.body} of {len(self._bodies)}")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are here, ascending."""
        return tuple(self.bindings)

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
            raise TraceError(f"no rank {rank}; there are {_short(self.ranks)}") from None

    def __iter__(self) -> Iterator[tuple[int, Trace]]:
        """(rank, trace) in ascending order."""
        return ((rank, self.trace(rank)) for rank in self.ranks)

    def __len__(self) -> int:
        return len(self.bindings)

    @property
    def collectives(self) -> Collectives:
        """Every collective and message of the set, matched across ranks."""
        return self.matched()

    def matched(self, workers: Workers | None = None) -> Collectives:
        """The same; with `workers`, the bodies are read there. Kept once it is known."""
        from chakrakit.trace.collectives import match

        if self._matched is None:
            self._matched = match(self, workers)
        return self._matched

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

    def _with(self, bindings: Mapping[int, Binding]) -> TraceSet:
        return TraceSet(self._bodies, bindings, self.groups, self.card)

    def __repr__(self) -> str:
        folded = f" in {self.body_count} bodies" if self.body_count < len(self) else ""
        missing = f", {len(self.missing_ranks)} not recorded" if self.missing_ranks else ""
        return (
            f"{type(self).__name__}({len(self)} ranks{folded}, {len(self.groups)} groups{missing})"
        )

    def _repr_html_(self) -> str:
        from chakrakit.trace.show import traceset_html

        return traceset_html(self)


def bind(body: Trace, binding: Binding) -> Trace:
    """The body as one rank runs it."""
    if binding.is_plain:
        return body
    changed: dict[str, object] = {}
    if binding.groups and "pg_name" in body.table.column_names:
        changed["pg_name"] = _renamed(body.table.column("pg_name"), binding.groups)
    for end in ("comm_src", "comm_dst"):
        if binding.peers and end in body.table.column_names:
            changed[end] = _moved(body, end, binding.peers)
    if binding.scale != 1.0:
        changed |= _scaled(body, binding.scale)
    return body.with_columns(changed)


def _renamed(names: pa.ChunkedArray, groups: Mapping[str, str]) -> pa.ChunkedArray:
    coded = names.combine_chunks().dictionary_encode()
    renamed = [groups.get(n, n) for n in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(renamed, pa.string())).cast(
        pa.string()
    )


def _moved(body: Trace, end: str, peers: Mapping[int, int]) -> pa.Array:
    values = body.column(end, -1)
    known = np.unique(values)
    moved = np.array([peers.get(int(v), int(v)) for v in known], np.int64)
    return pa.array(moved[np.searchsorted(known, values)], mask=~body.has(end))


def _scaled(body: Trace, scale: float) -> dict[str, object]:
    """Durations, operations and bytes of compute nodes times `scale`; other nodes stay exact."""
    compute = body.is_type(NodeType.COMP_NODE)
    duration = _times(body.duration_ns, scale, compute)
    exact = (duration % 1000 != 0) | (body.has("duration_ns") & ~compute)
    changed: dict[str, object] = {
        "duration_micros": np.maximum(duration, 0) // 1000,
        "duration_ns": pa.array(duration, mask=~exact),
    }
    for name in ("num_ops", "tensor_size"):
        if name in body.table.column_names:
            scaled = _times(body.column(name, 0), scale, compute)
            changed[name] = pa.array(scaled, mask=~body.has(name))
    return changed


def _times(values: NDArray[np.int64], scale: float, where: NDArray[np.bool_]) -> NDArray[np.int64]:
    limit = float(2**63 - 1024)
    scaled = np.clip(np.rint(values * scale), -limit, limit).astype(np.int64)
    return np.where(where, scaled, values)


def _short(ranks: Sequence[int]) -> str:
    if len(ranks) <= 8:
        return ", ".join(map(str, ranks))
    return f"{ranks[0]}, {ranks[1]}, … {ranks[-1]} ({len(ranks)} of them)"
