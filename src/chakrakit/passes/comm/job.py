"""CommJob: the calls that an action applies to, and the changes it makes to each body."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.passes.base import with_bodies
from chakrakit.passes.comm.channels import MESSAGE, BodyCalls, BodyChannel, channels_of
from chakrakit.passes.comm.rewrite import Rewrite
from chakrakit.trace.communication import UNKNOWN, Body
from chakrakit.trace.model import CollectiveType, Trace
from chakrakit.trace.sets import TraceSet

Edit = Callable[[Rewrite], None]

TYPES: dict[str, tuple[int, ...]] = {
    "all-reduce": (CollectiveType.ALL_REDUCE,),
    "reduce-scatter": (CollectiveType.REDUCE_SCATTER, CollectiveType.REDUCE_SCATTER_BLOCK),
    "all-gather": (CollectiveType.ALL_GATHER,),
    "all-to-all": (CollectiveType.ALL_TO_ALL,),
    "broadcast": (CollectiveType.BROADCAST,),
    "reduce": (CollectiveType.REDUCE,),
    "gather": (CollectiveType.GATHER,),
    "scatter": (CollectiveType.SCATTER,),
    "message": (MESSAGE,),
}
"""Name → collective types. There is no barrier among them: it moves no data that could be changed."""


@dataclass(frozen=True)
class CallFilter:
    """Which calls an action applies to; an empty tuple stands for all."""

    groups: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    least: float = UNKNOWN

    def __post_init__(self) -> None:
        for name in self.types:
            if name not in TYPES:
                raise ConfigError(f"types: no {name!r}; {nearest(name, TYPES)}")


@dataclass
class CommJob:
    """One action on one set of traces. `edit` notes a change to a body; `result` is the changed set."""

    traces: TraceSet
    choice: CallFilter
    _edits: dict[int, list[Edit]] = field(default_factory=lambda: defaultdict(list))

    @cached_property
    def channels(self) -> list[BodyChannel]:
        """All channels of the set."""
        channels = channels_of(self.traces)
        group_names = {n for c in channels for n in c.names}
        for name in self.choice.groups:
            if name not in group_names:
                listed = ", ".join(repr(n) for n in sorted(group_names)[:8])
                raise ConfigError(f"groups: no {name!r} communicates; there are {listed or 'none'}")
        return channels

    def selected_calls(
        self, types: Sequence[str], phases: Sequence[str] = (), sized: bool = True
    ) -> Iterator[tuple[BodyChannel, I64]]:
        """Yields each channel with the numbers of its selected calls; `types` are those the action supports.

        `sized` leaves out calls that do not say how many bytes they move.
        """
        type_names = self.choice.types or tuple(types)
        for name in type_names:
            if name not in types:
                raise ConfigError(
                    f"types: this cannot be done to {name}; only to {', '.join(types)}"
                )
        codes = [code for name in type_names for code in TYPES[name]]
        for channel in self.channels:
            if self.choice.groups and not channel.names & set(self.choice.groups):
                continue
            least = max(self.choice.least, 1 if sized else UNKNOWN)
            mask = np.isin(channel.types, codes) & (channel.sizes >= least)
            mask &= self._in_phase(channel, self.choice.phases or phases)
            if mask.any():
                yield channel, np.flatnonzero(mask)

    def rows(self, types: Sequence[str]) -> dict[int, I64]:
        """Returns the selected calls of each body over all channels, also those without a number of bytes."""
        rows_of_body: dict[int, list[I64]] = defaultdict(list)
        for channel, calls in self.selected_calls(types, sized=False):
            for side in channel.sides:
                rows_of_body[side.body].append(side.rows[calls])
        return {body: np.unique(np.concatenate(parts)) for body, parts in rows_of_body.items()}

    def _in_phase(self, channel: BodyChannel, phases: Sequence[str]) -> Mask:
        """Returns the calls that any side issues in one of these phases: all sides must change alike."""
        if not phases:
            return np.ones(len(channel), np.bool_)
        masks = [np.isin(self.column(s, "phase", ""), phases) for s in channel.sides]
        mask: Mask = np.logical_or.reduce(masks)
        return mask

    def column(self, side: BodyCalls, name: str, default: object) -> NDArray[Any]:
        """An attribute of a side's calls."""
        return self.traces.body_at(side.body).column(name, default)[side.rows]

    def members(self, channel: BodyChannel) -> int:
        """Returns how many ranks each of the channel's groups has; a TraceError where they differ."""
        if not channel.ranks:
            raise TraceError(
                f"{channel.name} and the groups like it have different numbers of ranks, so their "
                "ranks cannot share a body after this; choose other groups"
            )
        return channel.ranks

    def edit(self, body: int, edit: Edit) -> None:
        """Notes a change to a body."""
        self._edits[body].append(edit)

    def renumber(self, channel: BodyChannel, parts: I64) -> I64 | None:
        """Makes room in the recorded sequence for calls that become several.

        Returns the first number of each call.
        """
        if channel.seqs is None:
            return None
        new: I64 = channel.seqs + np.cumsum(parts - 1) - (parts - 1)
        for side in channel.sides:
            self.edit(side.body, partial(_renumbered, side.rows, new))
        return new

    def result(self) -> TraceSet:
        """Returns the set with the noted changes; each body is changed when it is first used."""
        bodies: list[Body] = [
            partial(self._changed, n) if n in self._edits else partial(self.traces.body_at, n)
            for n in range(self.traces.body_count)
        ]
        return with_bodies(self.traces, bodies)

    def _changed(self, number: int) -> Trace:
        rewrite = Rewrite(self.traces.body_at(number))
        for edit in self._edits[number]:
            edit(rewrite)
        return rewrite.build()


def _renumbered(rows: I64, new: I64, rewrite: Rewrite) -> None:
    rewrite.set("comm_seq", rows.tolist(), new.tolist())
