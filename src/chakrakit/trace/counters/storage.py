"""What storage servers did in a run: the rows of its `storage` counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from chakrakit.results import Result


class ServerUse(Result, msgspec.Struct, kw_only=True, frozen=True):
    """One server of a store."""

    store: str
    server: int
    operations: int
    read_bytes: float
    written_bytes: float
    wait_ns: float
    """In the server's queue, all operations together."""
    longest_wait_ns: float
    busy_ns: float
    """While an operation was in flight."""
    most_in_flight: int
    longest_queue: int


def storage_table(servers: Sequence[ServerUse]) -> dict[str, Any]:
    """The counter's columns."""
    return {n: [getattr(s, n) for s in servers] for n in ServerUse.__struct_fields__}


def servers_of(counters: Mapping[str, pa.Table]) -> list[ServerUse]:
    """The servers that a run's counters speak of, none where there is no storage."""
    if "storage" not in counters:
        return []
    return [ServerUse(**row) for row in counters["storage"].to_pylist()]
