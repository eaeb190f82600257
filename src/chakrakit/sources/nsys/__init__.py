"""Nsight Systems' SQLite exports."""

from chakrakit.sources.nsys.reader import Process, find_processes, read_process
from chakrakit.sources.nsys.tables import is_export

__all__ = ["Process", "find_processes", "is_export", "read_process"]
