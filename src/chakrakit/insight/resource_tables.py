"""Tables of what a run asked of its network, its storage servers and its tiers of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chakrakit.insight.rank import Cell, Table, ms
from chakrakit.trace.sets import LinkClassSummary, PortSummary, ServerUse, TierUse

_SERVER_COLUMNS = (
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
    return Table.of("storage servers", _SERVER_COLUMNS, rows)


class NetworkFacts(Protocol):
    """What is known of a run's network, in the summary of a simulation and in an analysis."""

    link_classes: list[LinkClassSummary]
    ports: PortSummary | None
    group_setup_ns: float


def network_tables(facts: NetworkFacts) -> list[Table]:
    """Traffic by class, what messages cost at ports, and what setting up groups took."""
    classes = [
        (c.priority, c.weight, c.operations, c.bytes / 1e9, c.mean_ns / 1e3)
        for c in facts.link_classes
    ]
    p = facts.ports
    ports = [(p.messages, ms(p.port_ns), p.busiest, ms(p.busiest_ns))] if p else []
    setup = [(ms(facts.group_setup_ns),)] if facts.group_setup_ns else []
    port_columns = ("messages", "held ports ms", "busiest port", "of it ms")
    return [
        Table.of("traffic by class", ("class", "weight", "operations", "GB", "mean µs"), classes),
        Table.of("messages at ports", port_columns, ports),
        Table.of("setting up groups", ("ms, all together",), setup),
    ]


def tier_table(tiers: Sequence[TierUse]) -> Table:
    """One row per tier: the devices' memory, then the stores."""
    rows = [
        (t.tier, t.peak_bytes / 1e9, t.read_bytes / 1e9, t.written_bytes / 1e9, t.operations)
        for t in tiers
    ]
    return Table.of("tiers", ("tier", "peak GB", "read GB", "written GB", "operations"), rows)
