"""File formats of a single trace: `.et`, JSON, Parquet, and graphs for other tools."""

from __future__ import annotations

from chakrakit.trace.codecs import et
from chakrakit.trace.codecs.formats import (
    format_of,
    is_one_file,
    left_out,
    open_writer,
    read_trace,
    scan_trace,
    write_trace,
)
from chakrakit.trace.codecs.graph_export import Exported, Selection, export, type_code
from chakrakit.trace.codecs.parquet import other_table
from chakrakit.trace.files import Source

__all__ = [
    "Exported",
    "Selection",
    "Source",
    "et",
    "export",
    "format_of",
    "is_one_file",
    "left_out",
    "open_writer",
    "other_table",
    "read_trace",
    "scan_trace",
    "type_code",
    "write_trace",
]
