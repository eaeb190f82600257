"""What messages cost at the ports they leave by: laid on transfers, and added up over a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.machines.device import each_picoseconds
from chakrakit.machines.fabric import Machine, Routes


class PortPrices(NamedTuple):
    """By copy and transfer."""

    messages: I64
    overhead: I64
    """ps before a transfer's bytes flow."""
    held: F64
    """Seconds that the messages hold their port, besides their bytes."""


def port_prices(machine: Machine, keys: I64, step_of: I64, payload: F64) -> PortPrices:
    """Of transfers of one family; `keys` has a row a copy, src · devices + dst, below 0 for other ways."""
    src, dst = np.divmod(np.where(keys >= 0, keys, 0).reshape(-1), machine.size)
    dimension = machine.outermost_dimension(src % machine.size, dst)
    dimension[(keys.reshape(-1) < 0) | (src >= machine.size)] = -1
    peers = _peers(keys.shape, step_of, src, dst, dimension, machine.size)
    # Messages have a size each, copies of a collective's steps the sizes of its transfers.
    each_its_own = payload.size == keys.size
    size = payload if each_its_own else np.broadcast_to(payload, keys.shape).reshape(-1)
    messages, held = np.zeros(len(src), np.int64), np.zeros(len(src))
    overhead = np.zeros(len(src))
    for k, level in enumerate(machine.dimensions):
        mine = dimension == k
        if level.messages is None or not mine.any():
            continue
        messages[mine] = level.messages.messages(size[mine])
        held[mine] = messages[mine] * level.messages.gaps(peers[mine])
        overhead[mine] = level.messages.overhead
    late = each_picoseconds(overhead, lambda _: "the overhead of a message")
    shape = keys.shape
    return PortPrices(messages.reshape(shape), late.reshape(shape), held.reshape(shape))


def _peers(
    shape: tuple[int, ...], step_of: I64, src: I64, dst: I64, dimension: I64, size: int
) -> I64:
    """To how many others each transfer's sender sends in the same step through the same ports."""
    copies = np.repeat(np.arange(shape[0]), shape[1] if len(shape) > 1 else 1)
    step = np.tile(step_of, shape[0]) if len(shape) > 1 else step_of
    sender = np.zeros(len(src), np.int64)
    for part in (copies, step, dimension + 1, src):  # as one number, which sorts faster than four
        sender = sender * (part.max(initial=0) + 1) + part
    _, number = np.unique(sender, return_inverse=True)
    pairs = np.unique(number * size + dst)
    return np.bincount(pairs // size)[number]


@dataclass(frozen=True)
class PortUse:
    """What messages cost in a whole run."""

    messages: int
    port_s: float
    """Seconds that messages held their ports besides their bytes, over all ports."""
    busiest_s: float
    """The same of the port where it is most."""
    busiest_link: int


def port_use(plans: dict[str, Any], routes: Routes, runs: I64) -> PortUse | None:
    """How much all plans used the ports, given how often each ran; None where messages cost nothing."""
    if "messages" not in plans or not plans["messages"].any():
        return None
    messages, held = plans["messages"], plans["held"]
    per_step = np.repeat(runs, np.diff(plans["plan_steps"])) * plans["repeat"]
    times = np.repeat(per_step, np.diff(plans["step_transfers"]))
    sends = np.diff(routes.offsets)[plans["route"]] > 0
    port = routes.links[routes.offsets[plans["route"][sends]]]
    by_port = np.bincount(port, (held * times)[sends])
    busiest = int(by_port.argmax())
    return PortUse(
        int((messages * times).sum()), float(by_port.sum()), float(by_port[busiest]), busiest
    )
