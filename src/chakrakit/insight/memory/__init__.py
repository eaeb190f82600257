"""Memory over time, by kind and holder."""

from __future__ import annotations

from chakrakit.insight.memory.allocator import with_history
from chakrakit.insight.memory.memory import Memory, RankMemory, join_memory, memory_of

__all__ = ["Memory", "RankMemory", "join_memory", "memory_of", "with_history"]
