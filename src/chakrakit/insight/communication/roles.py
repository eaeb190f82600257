"""What groups are for, where the plan of a generated workload says it: `tp`, `dp`, or several dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from chakrakit.trace.sets import TraceSet


def group_roles(run: TraceSet, names: Iterable[str] | None = None) -> dict[str, str]:
    """Group → the dimensions of the plan in which its members differ; {} where the plan does not say.

    Of all groups, or of those with the given names. Names that are no numbers say themselves what they are
    for, and are left out.
    """
    axes = _axes(run.card.settings.get("plan"), run.world_size)
    groups = run.groups
    roles = {}
    for name in (groups if names is None else groups.keys() & set(names)) if axes else ():
        ranks = np.asarray(list(groups[name]), np.int64)
        if name.isdigit() and len(ranks) > 1 and ranks.max() < run.world_size:
            differ = [axis for axis, place in axes.items() if len(np.unique(place[ranks])) > 1]
            roles[name] = "+".join(differ)
    return roles


def _axes(plan: object, world: int) -> dict[str, Any]:
    """The place of every rank in each dimension of a plan, the first one of its order varying fastest."""
    if not isinstance(plan, Mapping) or not isinstance(plan.get("order"), str):
        return {}
    sizes = {axis: plan.get(axis) for axis in plan["order"].split("-")}
    whole = {axis: size for axis, size in sizes.items() if isinstance(size, int) and size > 0}
    if len(whole) < len(sizes) or np.prod(list(whole.values()), dtype=float) != world:
        return {}
    rank, stride, axes = np.arange(world), 1, {}
    for axis, size in whole.items():
        axes[axis] = rank // stride % size
        stride *= size
    return axes
