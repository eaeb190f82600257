"""Files of lines that one process at a time appends to; a kill at any time loses no line that was written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from chakrakit.errors import ConfigError

_BLOCK = 1 << 16
"""Bytes read at once, from the end, to find the last complete line: a line of results is far shorter."""


class AppendedLines:
    """Appends lines to a file that is open and locked."""

    def __init__(self, file: int) -> None:
        self._file = file

    def add(self, line: bytes) -> None:
        """On disk when it returns."""
        os.write(self._file, line + b"\n")
        os.fsync(self._file)


@contextlib.contextmanager
def appending(path: Path, what: str) -> Iterator[AppendedLines]:
    """Opens a file to append lines to; a ConfigError if another `what` (a sweep, a study) has it open.

    A last line without its end was being written when something was killed: it is cut off.
    """
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"{path.parent}: another {what} is writing there; wait for it, or give another -o"
            ) from None
        _cut_torn_line(file)
        yield AppendedLines(file)
    finally:
        os.close(file)


def _cut_torn_line(file: int) -> None:
    """Cuts the file after its last complete line."""
    end = os.fstat(file).st_size
    complete = end
    while complete:
        size = min(complete, _BLOCK)
        block = os.pread(file, size, complete - size)
        last = block.rfind(b"\n")
        if last >= 0:
            complete = complete - size + last + 1
            break
        complete -= size
    if complete < end:
        os.ftruncate(file, complete)
