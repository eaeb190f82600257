"""Traces wherever they live: files, prefixes, directories, bundles; read, written, converted, fed."""

from __future__ import annotations

from chakrakit.trace.storage.bundle import (
    BundleReport,
    carried_card,
    check_bundle,
    extract_bundle,
    workload_card,
    write_bundle,
)
from chakrakit.trace.storage.cards import fields_from, overlaid, read_card_file
from chakrakit.trace.storage.directory import fresh_directory, write_directories
from chakrakit.trace.storage.feeder import Feeder, feeder_paths
from chakrakit.trace.storage.places import (
    groups_beside_file,
    is_stream,
    named_rank,
    place_of,
    rank_files,
)
from chakrakit.trace.storage.store import check_output, convert, read, write, write_with_requests

__all__ = [
    "BundleReport",
    "Feeder",
    "carried_card",
    "check_bundle",
    "check_output",
    "convert",
    "extract_bundle",
    "feeder_paths",
    "fields_from",
    "fresh_directory",
    "groups_beside_file",
    "is_stream",
    "named_rank",
    "overlaid",
    "place_of",
    "rank_files",
    "read",
    "read_card_file",
    "workload_card",
    "write",
    "write_bundle",
    "write_directories",
    "write_with_requests",
]
