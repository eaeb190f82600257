"""PyTorch's memory snapshots."""

from __future__ import annotations

from chakrakit.sources.snapshots.reader import History, is_snapshot, memory_table, read_snapshot

__all__ = ["History", "is_snapshot", "memory_table", "read_snapshot"]
