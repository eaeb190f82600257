"""Devices joined by links, as one graph with routes."""

from __future__ import annotations

from chakrakit.machines.fabric.fabrics import Dragonfly, Fabric, Full, Ring, Tree, lone_port
from chakrakit.machines.fabric.graph import AnyGraph
from chakrakit.machines.fabric.links import Links, Routes, Store, StoreKind, WhenFull
from chakrakit.machines.fabric.machine import (
    Dimension,
    Joins,
    Machine,
    Site,
    Software,
    check_site,
    span_of,
)

__all__ = [
    "AnyGraph",
    "Dimension",
    "Dragonfly",
    "Fabric",
    "Full",
    "Joins",
    "Links",
    "Machine",
    "Ring",
    "Routes",
    "Site",
    "Software",
    "Store",
    "StoreKind",
    "Tree",
    "WhenFull",
    "check_site",
    "lone_port",
    "span_of",
]
