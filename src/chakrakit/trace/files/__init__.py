"""Bytes in and out: plain and compressed streams, and files inside bundles."""

from __future__ import annotations

from chakrakit.trace.files.bundle_files import (
    FORMAT,
    MANIFEST,
    VERSION,
    ZIP,
    BundlePath,
    ListedFile,
    Manifest,
    Problem,
    digest,
    is_bundle,
    listed,
    open_bundle,
)
from chakrakit.trace.files.streams import (
    GZIP,
    STDIO,
    ZSTD,
    Source,
    display_name,
    open_input,
    open_output,
    remove_empty,
    replacing,
)
from chakrakit.trace.files.tables import check_columns, read_parquet
from chakrakit.trace.files.temporary import (
    claimed,
    private_temporary,
    remove_stale,
    scratch,
    take_place,
    temporary_name,
    uninterrupted,
)
from chakrakit.trace.files.unpacking import unpacked

__all__ = [
    "FORMAT",
    "GZIP",
    "MANIFEST",
    "STDIO",
    "VERSION",
    "ZIP",
    "ZSTD",
    "BundlePath",
    "ListedFile",
    "Manifest",
    "Problem",
    "Source",
    "check_columns",
    "claimed",
    "digest",
    "display_name",
    "is_bundle",
    "listed",
    "open_bundle",
    "open_input",
    "open_output",
    "private_temporary",
    "read_parquet",
    "remove_empty",
    "remove_stale",
    "replacing",
    "scratch",
    "take_place",
    "temporary_name",
    "uninterrupted",
    "unpacked",
]
