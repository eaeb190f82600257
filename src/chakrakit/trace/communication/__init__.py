"""Communication across ranks: groups, bindings, and collectives and messages matched once."""

from __future__ import annotations

from chakrakit.trace.communication.calls import (
    UNKNOWN,
    Calls,
    CallsReader,
    Channel,
    group_names,
    own_rank,
    read_calls,
    read_joint_calls,
    turns,
)
from chakrakit.trace.communication.collectives import EQUAL_SIZES, ROOTED, Collectives, tables_of
from chakrakit.trace.communication.communication import Communication, UsedGroup
from chakrakit.trace.communication.groups import (
    MAX_RANKS,
    WORLD,
    Binding,
    Body,
    Groups,
    bind,
    canonical_group,
    groups_in,
    positive_names,
    read_groups,
)
from chakrakit.trace.communication.likeness import Classes, Company
from chakrakit.trace.communication.matching import Matching, match

__all__ = [
    "EQUAL_SIZES",
    "MAX_RANKS",
    "ROOTED",
    "UNKNOWN",
    "WORLD",
    "Binding",
    "Body",
    "Calls",
    "CallsReader",
    "Channel",
    "Classes",
    "Collectives",
    "Communication",
    "Company",
    "Groups",
    "Matching",
    "UsedGroup",
    "bind",
    "canonical_group",
    "group_names",
    "groups_in",
    "match",
    "own_rank",
    "positive_names",
    "read_calls",
    "read_groups",
    "read_joint_calls",
    "tables_of",
    "turns",
]
