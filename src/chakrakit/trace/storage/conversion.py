"""From one place and format to another, in pieces where a single file goes to a single file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from chakrakit.trace.codecs import Source, is_one_file, left_out, open_writer, scan_trace
from chakrakit.trace.storage.places import is_stream, place_of
from chakrakit.trace.storage.store import is_placeholder, rank_files, read, write

Step = Callable[[int, int | None], Any]
"""Called with how many pieces or ranks are done, and of how many (None: not known)."""


def convert(
    path: Source, target: str | os.PathLike[str], step: Step = lambda _done, _total: None
) -> dict[str, int]:
    """Converts, and says what the target's format has no place for: name → how many values."""
    files = rank_files(path)
    to_file = is_one_file(target) and not is_placeholder(target)
    if to_file and len(files) == 1 and not _is_folded(path):
        return _stream(next(iter(files.values())), target, step)
    traces = read(path)
    done = 0

    def count(_rank: int) -> None:
        nonlocal done
        done += 1
        step(done, len(traces))

    return write(traces, target, progress=count)


def _is_folded(path: Source) -> bool:
    """Whether a directory says more about its ranks than the bodies do."""
    place = None if is_stream(path) else place_of(path)
    return place is not None and (place / "ranks.parquet").is_file()


def _stream(source: Source, target: str | os.PathLike[str], step: Step) -> dict[str, int]:
    with open_writer(target) as writer:
        for number, piece in enumerate(scan_trace(source), 1):
            writer.write(piece)
            step(number, None)
    return left_out(writer)
