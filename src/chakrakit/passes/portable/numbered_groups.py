"""Groups numbered from 1, the whole world among them, as simulators of the Chakra world expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import Mask
from chakrakit.trace.communication import WORLD, Binding, Groups, positive_names
from chakrakit.trace.sets import TraceSet

_NEW = "\0all"
"""Stands for a group of all ranks that the traces do not have."""


@dataclass(frozen=True, eq=False)
class NumberedGroups:
    """New names of groups: a positive number keeps its own, everything else gets one that is free."""

    names: Mapping[str, str]
    groups: Groups
    world: str
    """What all ranks are called."""

    @classmethod
    def of(cls, traces: TraceSet) -> NumberedGroups:
        """The groups of a set of traces among the ranks that are here, and one of all of them."""
        here = set(traces.ranks)
        known = {n: tuple(r for r in ranks if r in here) for n, ranks in traces.groups.items()}
        known = {name: ranks for name, ranks in known.items() if ranks}
        names = positive_names([*known, _NEW])
        everyone = tuple(traces.ranks)
        all_ranks = (names[n] for n, ranks in known.items() if tuple(ranks) == everyone)
        world = next(all_ranks, names[_NEW])
        groups = {names[n]: ranks for n, ranks in known.items()} | {world: everyone}
        for name in WORLD:
            names.setdefault(name, world)
        return cls(names, Groups(groups), world)

    def binding(self, binding: Binding, body: int) -> Binding:
        """A rank's binding to its plain body, with the new names."""
        own = {self.names.get(a, a): self.names.get(b, b) for a, b in binding.groups.items()}
        return Binding(body, own, binding.peers, 1.0)

    def named(self, groups: pa.Array | None, collective: Mask) -> pa.Array:
        """The new name of each node's group; collectives without one are of all ranks."""
        if groups is None:
            return pa.array([self.world if c else None for c in collective], pa.string())
        coded = groups.cast(pa.string()).dictionary_encode()
        texts = pa.array([self.names.get(t, t) for t in coded.dictionary.to_pylist()], pa.string())
        found = texts.take(coded.indices)
        missing = pa.array(np.asarray(collective)) if len(found) else pa.array([], pa.bool_())
        world = pa.array([self.world] * len(found), pa.string())
        return pc.if_else(pc.and_(missing, pc.is_null(found)), world, found)
