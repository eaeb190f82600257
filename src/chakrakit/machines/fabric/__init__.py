"""Devices joined by links, as one graph with routes."""

from __future__ import annotations

from chakrakit.machines.fabric.fabrics import Dragonfly, Fabric, Full, Ring, Tree, lone_port
from chakrakit.machines.fabric.graph import AnyGraph
from chakrakit.machines.fabric.links import Links, Routes
from chakrakit.machines.fabric.machine import Dimension, Joins, Machine, Software
from chakrakit.machines.fabric.site import Site, check_site
from chakrakit.machines.fabric.spans import span_of
from chakrakit.machines.fabric.stores import Store, StoreKind, WhenFull

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
