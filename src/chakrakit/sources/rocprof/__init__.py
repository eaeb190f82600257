"""rocprofv3's JSON files."""

from chakrakit.sources.rocprof.reader import MARK, read_processes

__all__ = ["MARK", "read_processes"]
