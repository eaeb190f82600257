"""Nsight Systems' SQLite exports."""

from chakrakit.sources.nsys.reader import read_processes
from chakrakit.sources.nsys.tables import is_export

__all__ = ["is_export", "read_processes"]
