"""Nsight Systems' SQLite exports."""

from chakrakit.sources.nsys.reader import Process, find_processes, read_process
from chakrakit.sources.nsys.tables import MAGIC

__all__ = ["MAGIC", "Process", "find_processes", "read_process"]
