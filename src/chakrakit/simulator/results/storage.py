"""What storage servers did, server by server."""

from __future__ import annotations

import numpy as np

from chakrakit.machines.device import PS_PER_NS
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Outcome, StoredOperations, most_at_once
from chakrakit.trace.counters import ServerUse
from chakrakit.trace.timing import Intervals


def server_uses(outcome: Outcome, machine: Machine) -> list[ServerUse]:
    """One entry for every server that was used."""
    done = outcome.stored
    if done is None:
        return []
    servers = machine.store_of_servers()
    found = ((n, *servers[n]) for n in np.unique(done.server).tolist())
    return [_use(done, number, store.name, server) for number, store, server in found]


def _use(done: StoredOperations, number: int, store: str, server: int) -> ServerUse:
    mine = done.server == number
    writes, size = done.writes[mine], done.bytes[mine]
    arrived, started, ended = done.arrived[mine], done.started[mine], done.ended[mine]
    waits = (started - arrived) / PS_PER_NS
    return ServerUse(
        store=store,
        server=server,
        operations=int(mine.sum()),
        read_bytes=float(size[~writes].sum()),
        written_bytes=float(size[writes].sum()),
        wait_ns=float(waits.sum()),
        longest_wait_ns=float(waits.max()),
        busy_ns=Intervals.of(started, ended).total / PS_PER_NS,
        most_in_flight=most_at_once(started, ended),
        longest_queue=most_at_once(arrived, started),
    )
