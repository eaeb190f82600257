"""JointTrace: small bodies as one trace, so that what each of them is asked is asked once.

A question costs numpy about the same for forty rows as for forty thousand, so a thousand small bodies cost
a thousand times what they need. Bodies with the same columns are laid one after another; the rows of a body,
and the edges between them, are slices of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, U64
from chakrakit.trace.model.edges import Dependencies, Edges, ResolvedDependencies, edge_codes
from chakrakit.trace.model.trace import Trace

MOST_ROWS = 2_000
"""Of a body that is read with others: a larger one costs what its rows cost, alone or not."""

MOST_SCHEMAS = 16
"""Different sets of columns among bodies; with more of them, the others are read alone."""


def jointly(bodies: Sequence[Trace]) -> Iterable[list[int]]:
    """The places of bodies that may be read together: small ones with the same columns."""
    alike: list[tuple[pa.Schema, list[int]]] = []
    for place, body in enumerate(bodies):
        if not 0 < len(body) <= MOST_ROWS:
            continue
        schema = body.table.schema
        places = next((mine for known, mine in alike if known.equals(schema)), None)
        if places is not None:
            places.append(place)
        elif len(alike) < MOST_SCHEMAS:
            alike.append((schema, [place]))
    return [places for _, places in alike if len(places) > 1]


class JointTrace(Trace):
    """Bodies with the same columns, one after another; its ids are the numbers of its rows.

    It is for bodies whose ids count up row by row (`is_counted`); of others it does not know the edges.
    """

    def __init__(self, bodies: Sequence[Trace]) -> None:
        table = pa.concat_tables([body.table for body in bodies])
        super().__init__(table.unify_dictionaries().combine_chunks())
        self.offset: I64 = np.cumsum([0, *map(len, bodies)])
        """The first row of each body, and an end."""

    @cached_property
    def part(self) -> I64:
        """The body of each row, by its place."""
        return np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset))

    @cached_property
    def own_ids(self) -> U64:
        """The ids that the nodes have in their bodies."""
        return self.column("id")

    @cached_property
    def ids(self) -> U64:
        """The numbers of the rows, which are in the order of the ids in each body."""
        return np.arange(len(self), dtype=np.uint64)

    @property
    def is_counted(self) -> bool:
        """Whether the ids of every body count up by one from row to row."""
        steps = np.diff(self.own_ids) == 1
        steps[self.offset[1:-1] - 1] = True  # from one body to the next
        return bool(steps.all())

    @cached_property
    def _resolved(self) -> ResolvedDependencies:
        deps = Dependencies.of(self.table)
        body = self.part[deps.dst]
        within = deps.ids - self.own_ids[self.offset[body]]  # wraps for ids below the first
        sizes = np.diff(self.offset)[body].astype(np.uint64)
        src = np.where(within < sizes, within.astype(np.int64) + self.offset[body], -1)
        return ResolvedDependencies(deps, src.astype(np.int32), *edge_codes(self.table, deps))

    def edges_by_body(self) -> list[Edges]:
        """The edges of each body, in its own rows."""
        edges, first = self.edges, self.offset[:-1]
        bounds = np.searchsorted(edges.dst, self.offset).tolist()
        base = np.repeat(first, np.diff(bounds)).astype(np.int32)
        src, dst = edges.src - base, edges.dst - base
        return [
            Edges.unchecked(
                src[a:b],
                dst[a:b],
                edges.kind[a:b],
                edges.form[a:b],
                edges.lag[a:b],
                edges.ctrl[a:b],
            )
            for a, b in pairwise(bounds)
        ]

    def tell(self, bodies: Sequence[Trace]) -> None:
        """Gives bodies what was derived here, as if each had been asked."""
        known: dict[str, NDArray[Any]] = {
            "ids": self.own_ids,
            "types": self.types,
            "start_ns": self.start_ns,
            "duration_ns": self.duration_ns,
            "on_host": self.on_host,
        }
        bounds = self.offset.tolist()
        for body, edges, a, b in zip(
            bodies, self.edges_by_body(), bounds[:-1], bounds[1:], strict=True
        ):
            body.recall(
                edges=edges,
                column_names=self.column_names,
                **{name: array[a:b] for name, array in known.items()},
            )
