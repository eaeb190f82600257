"""Libraries of traces: an index that anyone can host, and bundles with what is known to be true of them."""

from __future__ import annotations

from chakrakit.trace.library.fetching import FetchedBundle, fetch
from chakrakit.trace.library.index import (
    INDEX,
    LibraryEntry,
    LibraryIndex,
    entry_of,
    is_url,
    read_index,
    write_index,
)

__all__ = [
    "INDEX",
    "FetchedBundle",
    "LibraryEntry",
    "LibraryIndex",
    "entry_of",
    "fetch",
    "is_url",
    "read_index",
    "write_index",
]
