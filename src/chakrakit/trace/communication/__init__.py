"""Communication across ranks: groups, bindings, and collectives and messages matched once."""

from __future__ import annotations

from chakrakit.trace.communication.binding import Binding, Body, bind
from chakrakit.trace.communication.collectives import (
    EQUAL_SIZES,
    ROOTED,
    UNKNOWN,
    Collectives,
    canonical_group,
    group_names,
    match,
    nth_of_kind,
    numbered_calls,
)
from chakrakit.trace.communication.groups import (
    MAX_RANKS,
    WORLD,
    Groups,
    groups_in,
    positive_names,
    read_groups,
)
from chakrakit.trace.communication.likeness import Company, like_classes

__all__ = [
    "EQUAL_SIZES",
    "MAX_RANKS",
    "ROOTED",
    "UNKNOWN",
    "WORLD",
    "Binding",
    "Body",
    "Collectives",
    "Company",
    "Groups",
    "bind",
    "canonical_group",
    "group_names",
    "groups_in",
    "like_classes",
    "match",
    "nth_of_kind",
    "numbered_calls",
    "positive_names",
    "read_groups",
]
