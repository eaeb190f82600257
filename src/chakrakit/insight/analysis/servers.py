"""Storage servers as a table, the same after a simulation, in an analysis and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.insight.rank import Cell, Table, ms
from chakrakit.trace.counters import ServerUse

_HEAD = (
    "store",
    "server",
    "operations",
    "most in flight",
    "longest queue",
    "read GB",
    "written GB",
    "busy ms",
    "waited ms",
    "longest wait ms",
)


def server_table(servers: Sequence[ServerUse]) -> Table:
    """One row per server; the time waited is that of all its operations together."""
    rows: list[tuple[Cell, ...]] = []
    for s in servers:
        counts = (s.operations, s.most_in_flight, s.longest_queue)
        sizes = (s.read_bytes / 1e9, s.written_bytes / 1e9)
        times = (ms(t) for t in (s.busy_ns, s.wait_ns, s.longest_wait_ns))
        rows.append((s.store, s.server, *counts, *sizes, *times))
    return Table.of("storage servers", _HEAD, rows)
