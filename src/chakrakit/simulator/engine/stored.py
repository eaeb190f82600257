"""Storage operations: reads and writes of ranks at the servers of a machine's stores.

Each operation is an instance with one member. Every copy of it has its own transfer between its rank's device
and the server that its node uses, and waits in the server's queue while others are in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrakit.arrays import F64, I32, I64, Mask
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine.instances import Instances
from chakrakit.simulator.engine.membership import Membership, RowNames
from chakrakit.simulator.engine.messages import device_table
from chakrakit.simulator.engine.plans import TransferPlans
from chakrakit.trace.communication import Classes

LOAD, STORE = "load", "store"
ONE_SIDED = PUT, GET = "put", "get"
"""Titles of one-sided writes and reads of another rank's memory."""
UNLIMITED = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class StoredOperations:
    """Parallel arrays, one entry per operation of every rank; times in picoseconds."""

    server: I64
    """Numbered through all stores."""
    writes: Mask
    bytes: F64
    arrived: I64
    started: I64
    """When the server took it from its queue."""
    ended: I64


class StoredMatcher:
    """Adds the storage operations of all classes to the instances, with their plans."""

    def __init__(
        self,
        membership: Membership,
        classes: Classes,
        device_of: I64,
        offset: I64,
        book: TransferPlans,
        measured: bool = False,
    ) -> None:
        """With `measured`, operations take their recorded time, whatever stores the machine has."""
        self.measured = measured
        self.m, self.classes, self.device_of = membership, classes, device_of
        self.offset, self.book = offset, book
        self.names = {store.name: i for i, store in enumerate(book.machine.stores)}

    def match(self, out: Instances) -> None:
        """Adds the operations, class by class, in the order in which a rank issues them."""
        for c in range(self.classes.count):
            if len(self.m.programs[self.m.body(int(self.classes.first[c]))].stored.row):
                self._class(c, out)

    def _class(self, c: int, out: Instances) -> None:
        stored = self.m.programs[self.m.body(int(self.classes.first[c]))].stored
        ranks = self.classes.ranks_of(c)
        devices = self.device_of[ranks]
        for i, row in enumerate((stored.row + self.offset[c]).tolist()):
            if stored.peer[i] >= 0:
                self._one_sided(c, i, row, out)
                continue
            name, size, writes = stored.store[i], int(stored.size[i]), bool(stored.writes[i])
            store = -1 if self.measured else self._store(name, row)
            if store >= 0:
                size = self.book.machine.stores[store].moved(size, int(stored.pieces[i]))
            first = (
                self.book.add_fixed(0.0, len(ranks))
                if self.measured
                else self.book.add_stored(store, devices, writes, size)
            )
            title = (STORE if writes else LOAD, name, i)
            jobs = np.arange(first, first + len(ranks))
            instance = out.add(
                title=title,
                size=size,
                needed=1,
                jobs=jobs,
                group_class=-1,
                algorithm="direct",
                shape=None,
                overhead=0.0,
            )
            out.rank_class[instance] = c
            if not self.measured:
                out.served[instance] = (self.book.machine.servers(store, devices), ranks)
            out.of_row[row] = instance

    def _one_sided(self, c: int, i: int, row: int, out: Instances) -> None:
        """Adds a write to, or a read of, the memory of another rank, who takes no part in it."""
        stored = self.m.programs[self.m.body(int(self.classes.first[c]))].stored
        places = self.classes.ranks_of(c)
        near = self.device_of[places]
        far = self._devices_of_peers(int(stored.peer[i]), places, row)
        size, writes = int(stored.size[i]), bool(stored.writes[i])
        ends = (near, far) if writes else (far, near)
        first = (
            self.book.add_fixed(0.0, len(places))
            if self.measured
            else self.book.add_messages(*ends, np.full(len(places), float(size)), asked=not writes)
        )
        instance = out.add(
            title=(PUT if writes else GET, stored.window[i], i),
            size=size,
            needed=1,
            jobs=np.arange(first, first + len(places)),
            group_class=-1,
            algorithm="direct",
            shape=None,
            overhead=0.0,
        )
        out.rank_class[instance] = c
        out.of_row[row] = instance

    def _devices_of_peers(self, peer: int, places: I64, row: int) -> I64:
        """The device of the rank that a body calls `peer`, for each of these ranks."""
        bindings, ranks = self.m.traces.bindings, self.m.ranks
        table = device_table(self.m, self.device_of)
        peers = [bindings[ranks[p]].peers.get(peer, peer) for p in places.tolist()]
        for place, rank in zip(places.tolist(), peers, strict=True):
            if not 0 <= rank < len(table) or rank == ranks[place]:
                node = RowNames(self.m, self.classes, self.offset).node(row)
                raise TraceError(
                    f"{node} reads or writes the memory of rank {rank}; name another rank, from 0 to "
                    f"{len(table) - 1}"
                )
        return table[np.array(peers, np.int64)]

    def _store(self, name: str, row: int) -> int:
        if name in self.names:
            return self.names[name]
        node = RowNames(self.m, self.classes, self.offset).node(row)
        machine = self.book.machine.name
        if not self.names:
            raise ConfigError(
                f"{node} uses the store {name!r}, and {machine} has no storage; describe it under "
                "`storage` in the machine's file"
            )
        raise ConfigError(
            f"{node} uses the store {name!r}; {machine} has none of that name; "
            f"{nearest(name, self.names)}"
        )


def gate_arrays(instances: Instances, machine: Machine) -> dict[str, Any]:
    """The arrays that describe servers to the core; empty where no rank uses one."""
    none = {"job_gate": np.zeros(0, np.int32), "job_order": np.zeros(0, np.int64)}
    if not instances.served:
        return {**none, "gate_slots": np.zeros(0, np.int32)}
    first = _firsts(instances)
    gate: I32 = np.full(int(first[-1]), -1, np.int32)
    order = np.zeros(int(first[-1]), np.int64)
    for instance, (servers, ranks) in instances.served.items():
        gate[first[instance] : first[instance + 1]] = servers
        order[first[instance] : first[instance + 1]] = ranks
    slots = [store.operations or UNLIMITED for store, _ in machine.store_of_servers()]
    return {"job_gate": gate, "job_order": order, "gate_slots": np.array(slots, np.int32)}


def stored_operations(
    instances: Instances, machine: Machine, arrays: dict[str, Any]
) -> StoredOperations | None:
    """The operations of all servers; an error where a server's capacity or queue was exceeded."""
    if not instances.served:
        return None
    first = _firsts(instances)
    numbers = list(instances.served)
    jobs = np.concatenate([np.arange(first[i], first[i + 1]) for i in numbers])
    each = [len(instances.jobs[i]) for i in numbers]
    operations = StoredOperations(
        np.concatenate([servers for servers, _ in instances.served.values()]),
        np.repeat([instances.what[i][0] == STORE for i in numbers], each),
        np.repeat(np.array([instances.size[i] for i in numbers], np.float64), each),
        np.repeat(arrays["began"][numbers], each),
        arrays["job_started"][jobs],
        arrays["job_ended"][jobs],
    )
    _check(operations, machine)
    return operations


def most_at_once(since: I64, until: I64) -> int:
    """The largest number of operations at the same time, each from since[i] until until[i]."""
    lasting = until > since
    time = np.concatenate([since[lasting], until[lasting]])
    change = np.repeat(
        [1, -1], int(lasting.sum())
    )  # one that begins as another ends comes after it
    return int(np.cumsum(change[np.lexsort((change, time))]).max(initial=0))


def _check(operations: StoredOperations, machine: Machine) -> None:
    for number, (store, server) in enumerate(machine.store_of_servers()):
        mine = operations.server == number
        written_bytes = float(operations.bytes[mine & operations.writes].sum())
        if store.capacity and written_bytes > store.capacity:
            raise ConfigError(
                f"{written_bytes:,.0f} bytes are written to server {server} of {store.name!r}, which holds "
                f"{store.capacity:,.0f}; give it a larger `capacity` or more servers"
            )
        longest = most_at_once(operations.arrived[mine], operations.started[mine])
        if store.when_full == "refuse" and store.queue and longest > store.queue:
            raise TraceError(
                f"{longest:,} operations wait at server {server} of {store.name!r}, whose queue takes "
                f"{store.queue:,}; allow more `operations`, a longer `queue`, or `when_full: wait`"
            )


def _firsts(instances: Instances) -> I64:
    first: I64 = np.cumsum([0, *(len(j) for j in instances.jobs)])
    return first
