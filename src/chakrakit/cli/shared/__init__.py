"""What the commands share: output, options, schemas."""

from __future__ import annotations

from chakrakit.cli.shared.output import (
    clean,
    console,
    json_option,
    path_argument,
    print_json,
    print_recording,
    print_table,
    print_tables,
    print_verdict,
    progress,
)
from chakrakit.cli.shared.workers import engine_option, workers_options
from chakrakit.cli.shared.workload_options import field_options

__all__ = [
    "clean",
    "console",
    "engine_option",
    "field_options",
    "json_option",
    "path_argument",
    "print_json",
    "print_recording",
    "print_table",
    "print_tables",
    "print_verdict",
    "progress",
    "workers_options",
]
