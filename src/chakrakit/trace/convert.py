"""From one place and format to another, in pieces where a single file goes to a single file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from chakrakit.trace.formats import Source, format_of, open_writer, scan_trace
from chakrakit.trace.store import rank_files, read, write

Progress = Callable[[int | None], Callable[[int], Any]]


def convert(path: Source, target: str | os.PathLike[str], progress: Progress) -> dict[str, int]:
    """Converts, and says what the target's format has no place for: name → how many values."""
    if _is_one_file(os.fspath(target)):
        files = rank_files(path)
        if len(files) == 1:
            return _stream(next(iter(files.values())), target, progress(None))
    traces = read(path)
    write(traces, target, progress=progress(len(traces)))
    return {}


def _is_one_file(target: str) -> bool:
    if target == "-":
        return True
    ranked = re.search(r"\.N\.(et|json|feeder\.json|parquet)(\.gz|\.zst)?$", target)
    return not ranked and bool(re.search(r"\.(et|json|parquet)(\.gz|\.zst)?$", target))


def _stream(
    source: Source, target: str | os.PathLike[str], step: Callable[[int], Any]
) -> dict[str, int]:
    format_of(target)
    with open_writer(target) as writer:
        for number, piece in enumerate(scan_trace(source)):
            writer.write(piece)
            step(number)
    left_out: dict[str, int] = getattr(writer, "left_out", {})
    return left_out
