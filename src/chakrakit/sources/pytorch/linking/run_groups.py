"""The groups of all linked ranks: merged, inferred where files name none, and numbered."""

from __future__ import annotations

from collections.abc import Mapping

from chakrakit.sources.pytorch.communication import Groups as RecordedGroups
from chakrakit.sources.pytorch.communication import (
    align_windows,
    assign_groups,
    infer_across_ranks,
    name_peers,
    number_in_groups,
)
from chakrakit.sources.pytorch.linking.linked_rank import LinkedRank, list_of
from chakrakit.trace.communication import positive_names


def merged_groups(ranks: Mapping[int, LinkedRank]) -> RecordedGroups:
    """The groups that any rank knows; see `_add_unnamed` for where none does."""
    out: RecordedGroups = {}
    for linked in ranks.values():
        for name, members in linked.groups.items():
            out.setdefault(name, members)
    _add_unnamed(ranks, out)
    return out


def _add_unnamed(ranks: Mapping[int, LinkedRank], groups: RecordedGroups) -> None:
    """Where no file describes groups: those who communicate in one are in it; with none, all are in one."""
    if groups:
        return  # a name that is not among them is a mistake that validation tells
    used: dict[str, set[int]] = {}
    for rank, linked in ranks.items():
        for c in list_of(linked):
            if c.group is not None and c.group not in groups:
                used.setdefault(c.group, set()).add(rank)
    groups |= {name: tuple(sorted(members)) for name, members in used.items()}
    if not groups and len(ranks) > 1:
        groups["0"] = tuple(sorted(ranks))


def numbered_groups(ranks: Mapping[int, LinkedRank], groups: RecordedGroups) -> RecordedGroups:
    """The groups under names that every reader takes: simulators refuse a group 0, PyTorch's default."""
    names = positive_names(groups)
    for linked in ranks.values():
        for call in list_of(linked):
            call.group = names.get(call.group, call.group) if call.group is not None else None
    return {names[name]: members for name, members in groups.items()}


def resolve_groups(ranks: dict[int, LinkedRank], groups: RecordedGroups) -> dict[int, int]:
    """Groups and sequence numbers of all ranks; returns how many of each rank were inferred."""
    for rank, linked in ranks.items():
        _ddp_groups(linked)
        assign_groups(list_of(linked), groups, rank)
    infer_across_ranks({r: x.recorded for r, x in ranks.items()}, groups)
    for linked in ranks.values():
        name_peers(list_of(linked), groups)
        number_in_groups(list_of(linked))
    align_windows(
        {r: x.recorded for r, x in ranks.items()}, {r: x.base_ns for r, x in ranks.items()}
    )
    return {r: sum(c.inferred for c in list_of(x)) for r, x in ranks.items()}


def _ddp_groups(linked: LinkedRank) -> None:
    """DDP's reducer names no group; the collector's card says which one DDP uses."""
    names = linked.card.of_collector.get("ddp_groups") or []
    for c in list_of(linked) if len(names) == 1 else ():
        if c.group is None and not c.is_message:
            c.group, c.inferred = str(names[0]), True
