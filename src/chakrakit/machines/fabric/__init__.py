"""Devices joined by links, as one graph with routes."""

from __future__ import annotations

from chakrakit.machines.fabric.fabrics import (
    Dragonfly,
    Fabric,
    Full,
    Ring,
    Tree,
    lone_port,
    uplinks_of,
)
from chakrakit.machines.fabric.graph import AnyGraph
from chakrakit.machines.fabric.groups import GROUP_COSTS, GroupCost
from chakrakit.machines.fabric.links import (
    BandwidthChange,
    Links,
    Routes,
    Schedule,
    Store,
    StoreKind,
    WhenFull,
)
from chakrakit.machines.fabric.machine import (
    Dimension,
    Joins,
    Machine,
    Site,
    Software,
    check_site,
    farther,
    span_of,
)
from chakrakit.machines.fabric.ports import MessageCost

__all__ = [
    "GROUP_COSTS",
    "AnyGraph",
    "BandwidthChange",
    "Dimension",
    "Dragonfly",
    "Fabric",
    "Full",
    "GroupCost",
    "Joins",
    "Links",
    "Machine",
    "MessageCost",
    "Ring",
    "Routes",
    "Schedule",
    "Site",
    "Software",
    "Store",
    "StoreKind",
    "Tree",
    "WhenFull",
    "check_site",
    "farther",
    "lone_port",
    "span_of",
    "uplinks_of",
]
