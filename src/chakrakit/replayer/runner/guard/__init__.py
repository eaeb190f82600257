"""The sandbox: what a plan asks of PyTorch is held against the tensors that are really there."""

from __future__ import annotations

from .guard import Guard
from .memory_budget import MemoryBudget, limit_process, memory_budget
from .refusal import Refused, written_by

__all__ = ["Guard", "MemoryBudget", "Refused", "limit_process", "memory_budget", "written_by"]
