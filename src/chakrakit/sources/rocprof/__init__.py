"""rocprofv3's JSON files."""

from chakrakit.sources.rocprof.reader import is_rocprof, read_processes

__all__ = ["is_rocprof", "read_processes"]
