"""How groups lie on a machine, as its communication library sees it: nodes, links inside, ports outside."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.fabric.machine import Machine
from chakrakit.machines.library import Span


def span_of(machine: Machine, devices: I64) -> Span:
    """The span of one group; a node is one copy of the innermost fabric."""
    devices = np.asarray(devices, np.int64)
    node = machine.instance(devices, 0) if len(machine.dimensions) > 1 else np.zeros(len(devices))
    nodes, where, local = np.unique(node, return_inverse=True, return_counts=True)
    link = _inside(machine, devices, where)
    port, leaving = _outside(machine, devices, where) if len(nodes) > 1 else (0.0, 0.0)
    if not np.isfinite(link):
        link = port
    fabric = machine.dimensions[0]
    return Span(
        members=len(devices),
        nodes=len(nodes),
        local=int(local.max()),
        link=link,
        leaving=leaving,
        reduces=fabric.reduction and int(local.min()) == int(local.max()),
        port=port,
    )


def _inside(machine: Machine, devices: I64, node: I64) -> float:
    """Bytes/s of the narrowest way between neighbours of a node; infinite with one device per node."""
    order = np.argsort(node, kind="stable")
    same = node[order][1:] == node[order][:-1]
    src, dst = devices[order][:-1][same], devices[order][1:][same]
    routes = machine.routes(np.r_[src, dst], np.r_[dst, src])
    return float(routes.bandwidth(machine.links).min(initial=np.inf))


def _outside(machine: Machine, devices: I64, node: I64) -> tuple[float, float]:
    """Bytes/s of one device, and of a node's devices together, while every device sends to the next node."""
    order = np.argsort(node, kind="stable")
    rank = np.arange(len(devices)) - np.searchsorted(node[order], node[order])
    count = np.bincount(node)
    first = np.r_[0, np.cumsum(count)[:-1]]
    after = (node[order] + 1) % len(count)
    target = devices[order][first[after] + rank % count[after]]
    routes = machine.routes(devices[order], target)
    load = np.bincount(routes.links, minlength=len(machine.links))
    share = machine.links.bandwidth / np.maximum(load, 1)
    each = np.minimum.reduceat(share[routes.links], routes.offsets[:-1])
    return float(each.min()), float(np.bincount(node[order], each).min())
