"""Rows that are parts of served requests or of a campaign's history: their colours, lanes and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.insight.rank import KIND_NAMES, RankView
from chakrakit.trace.model import NodeType
from chakrakit.views.colors import CAMPAIGN_PARTS, REQUEST_PARTS, color

_MOST_NAMED = 300_000
"""Rows up to which each has its request's number in its name; a name takes some 100 bytes."""


_ONLY_DEVICE = "device 0 "
"""What most lanes begin with, and where a label has no room for more."""
_MOST_GROUPS = 3
"""Groups that fit the label of a lane."""


@dataclass(frozen=True)
class Origins:
    """What the run of a rank says of where its rows come from."""

    campaign: bool = False
    """Whether it is a history of a campaign."""
    roles: Callable[[Iterable[str]], Mapping[str, str]] = lambda names: {}
    """What groups are for, by name."""


def legend() -> list[dict[str, str]]:
    """The meaning of all codes: the kinds of rows, then parts of requests, then those of campaigns."""
    kinds = [{"name": name, "color": color(name)} for name in KIND_NAMES.values()]
    return kinds + [{"name": part, "color": color(kind)} for part, kind in _PARTS]


_PARTS = [*REQUEST_PARTS.items(), *CAMPAIGN_PARTS.items()]


def codes(view: RankView, *, campaign: bool) -> I8:
    """The code of each row in `legend`; every row of a campaign is a part of it."""
    rows = np.ones(len(view), np.bool_) if campaign else _of_requests(view)
    if not rows.any():
        return view.kind
    number = {part: len(KIND_NAMES) + i for i, (part, _) in enumerate(_PARTS)}
    name, texts = view.names
    of_text = np.array([number.get(text, -1) for text in texts], np.int8)[name]
    coded: I8 = np.where(rows & (of_text >= 0), of_text, view.kind).astype(np.int8)
    return coded


def names(view: RankView) -> tuple[I32, list[str]]:
    """The name of each row, those of requests with the request's number."""
    name, texts = view.names
    rows = np.flatnonzero(_of_requests(view))
    if not len(rows) or len(rows) > _MOST_NAMED:
        return name, texts
    requests = view.trace.column("request", 0)[rows].tolist()
    numbered = [
        f"request {r}: {texts[n]}" for r, n in zip(requests, name[rows].tolist(), strict=True)
    ]
    out = name.copy()
    out[rows] = len(texts) + np.arange(len(rows))
    return out, [*texts, *numbered]


def title(lane: str, view: RankView, rows: I64, origins: Origins) -> str:
    """The title of the lane of some rows.

    Requests that were served at the same time have a lane each; a stream of communication alone says whose.
    """
    first = int(rows[0])
    if origins.campaign:
        return "the node" if view.trace.column("stream", 0)[first] else "the job"
    if _of_requests(view)[first]:
        return lane.replace("thread", "requests")
    whose = _whose(view, rows, origins)
    return f"{lane.removeprefix(_ONLY_DEVICE)}: {whose}" if whose else lane


def _whose(view: RankView, rows: I64, origins: Origins) -> str:
    """`tp`, `dp`, `messages`: whose communication rows are, where all are and their groups say something."""
    if not view.is_comm[rows].all():
        return ""
    groups = set(view.trace.column("pg_name", "")[rows].astype(str).tolist())
    messages = view.trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)[rows]
    if messages.all():
        return "messages"
    roles = {origins.roles(groups).get(name, name) for name in groups - {""}}
    few = 0 < len(roles) <= _MOST_GROUPS and not any(role.isdigit() for role in roles)
    return ", ".join(sorted(roles)) if few else ""


def _of_requests(view: RankView) -> Mask:
    if "request" not in view.trace.table.column_names:
        return np.zeros(len(view), np.bool_)
    return view.trace.has("request")
