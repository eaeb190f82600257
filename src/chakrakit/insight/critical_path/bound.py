"""What bounds a run: the resource that saves most when it is twice as fast, by a margin.

A path from the end of a run to its beginning says what that one path is made of. Another path may be almost
as long, so that a faster resource on the first one saves nothing. The run is therefore scheduled again with
each resource twice as fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from chakrakit.insight.critical_path.model import Model
from chakrakit.insight.rank import RowKind
from chakrakit.results import Result

RESOURCES: dict[str, tuple[RowKind, ...]] = {
    "device": (RowKind.COMPUTE, RowKind.COPY),
    "communication": (RowKind.COMM,),
    "host": (RowKind.HOST,),
    "data": (RowKind.LOAD,),
    "saving": (RowKind.SAVE,),
}
"""What can bound a run, and the kinds of rows that get faster with it."""
ON_HOST: dict[str, tuple[RowKind, ...]] = {
    "computation": (RowKind.COMPUTE, RowKind.COPY),
    "communication": (RowKind.COMM,),
    "host": (RowKind.HOST,),
    "data": (RowKind.LOAD,),
    "saving": (RowKind.SAVE,),
}
"""The same where nothing runs on a device: the host computes; `host` is what else it does, as in tables."""
MARGIN = 0.8
"""A resource is balanced with another that saves this share of what it saves: times jitter by a few percent,
and a bound that the next run would not have helps nobody. Assumed."""
EXPLAINED = 0.4
"""The least share of a run that has to follow its resources; below it, what nothing explains bounds it more
than any of them. A run in which everything is twice as fast saves half of what is explained. Assumed: less
than half of the run."""


LEAST = 0.02
"""The least share that a resource has to save to bound a run: less is within the jitter of steps. Assumed."""

LEAST_ALONE = 0.25
"""The least part of what all resources together save that one has to save alone. Where it saves less, another
is at work most of the time beside it, and would take its place. Assumed."""


class Bound(Result, msgspec.Struct, frozen=True):
    """What bounds a run, and the shares of it that it would save with each resource twice as fast."""

    name: str
    """`device`, or `computation` where there is none; `communication`, `host`, `data`, `saving` to a store,
    `balanced`, `unexplained`, or empty for an empty run."""
    saves: dict[str, float] = {}
    """By resource, largest first."""
    explained: float = 0.0
    """The share of the run that follows its resources: twice what it saves with all of them twice as fast."""

    @property
    def leading(self) -> list[str]:
        """The resources that are balanced, or the one that bounds the run."""
        most = max(self.saves.values(), default=0.0)
        return [name for name, share in self.saves.items() if most and share >= MARGIN * most]


def bound_of(model: Model, on_device: bool) -> Bound:
    """What bounds the run of a model, by scheduling it again once for each resource."""
    if not model.makespan:
        return Bound("")
    resources = RESOURCES if on_device else ON_HOST
    saves = {
        name: share
        for name, kinds in resources.items()
        if (share := _saved(model, kinds)) is not None
    }
    every = _saved(model, [kind for kinds in resources.values() for kind in kinds]) or 0.0
    return judged(saves, min(2 * every, 1.0))


def _saved(model: Model, kinds: Sequence[RowKind]) -> float | None:
    """The share of a run that is saved with these kinds of rows twice as fast; None where it has none."""
    chosen = np.isin(model.kind, kinds)
    if not chosen.any():
        return None
    factors = np.ones(model.n)
    factors[: model.rows][chosen] = 0.5
    return 1 - model.makespan_with(factors) / model.makespan


def judged(saves: Mapping[str, float], explained: float) -> Bound:
    """The bound that follows from what the run saves with each resource twice as fast."""
    ordered = dict(sorted(saves.items(), key=lambda item: -item[1]))
    bound = Bound("unexplained", ordered, explained)
    if explained < EXPLAINED:
        return bound
    leading = bound.leading
    alone = len(leading) == 1 and ordered[leading[0]] >= max(LEAST, explained / 2 * LEAST_ALONE)
    return Bound(leading[0] if alone else "balanced", ordered, explained)


def with_loader(bound: Bound, waited: float) -> Bound:
    """The same where the host waited for its data loader for a share of the run: that is data, not host.

    A loader that is twice as fast saves half of it, and the host the rest of what it saved.
    """
    if waited <= 0 or "host" not in bound.saves or "data" in bound.saves:
        return bound
    loading = min(waited / 2, bound.saves["host"])
    saves = bound.saves | {"data": loading, "host": bound.saves["host"] - loading}
    return judged(saves, bound.explained)


def path_bound(attribution: Mapping[str, int], on_device: bool) -> Bound:
    """What bounds a run that is too large to be scheduled again, by its critical path alone."""
    total = sum(attribution.values())
    if not total:
        return Bound("")
    saves = {
        name: sum(attribution.get(part, 0) for part in parts) / total / 2
        for name, parts in _ON_PATH.items()
        if name in _ALWAYS or any(part in attribution for part in parts)
    }
    if not on_device:
        saves["computation"] = saves.pop("device")
    return judged(saves, 2 * sum(saves.values()))


_ON_PATH = {
    "device": ("compute", "copy"),
    "communication": ("communication",),
    "host": ("host", "launch", "synchronization"),
    "data": ("load",),
    "saving": ("save",),
}
"""The parts of a critical path that get shorter with each resource; gaps between kernels are nobody's."""
_ALWAYS = ("device", "communication", "host")
"""What every run is taken to have; a store is named only where the path is on it."""
