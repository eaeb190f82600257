"""NCCL Inspector."""

from chakrakit.sources.nccl_inspector.reader import Inspected, is_inspector, read_inspector

__all__ = ["Inspected", "is_inspector", "read_inspector"]
