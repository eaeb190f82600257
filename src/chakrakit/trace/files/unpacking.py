"""Gzip files that are read whole: unpacked within a limit that follows their size."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator

from chakrakit.errors import FormatError
from chakrakit.trace.files.streams import GZIP

_PIECE = 1 << 20
_MOST_TIMES = 100
"""The most regular recordings shrink to a thirtieth; gzip itself ends at a thousandth."""
_ROOM = 64 << 20


def unpacked(data: bytes, path: str, cut_off: bool = False) -> bytes:
    """What a file holds, gzip told by its first bytes; if it may be `cut_off`, as far as it goes."""
    if not data.startswith(GZIP):
        return data
    return b"".join(_within(_pieces(data, path, cut_off), len(data), path))


def _pieces(data: bytes, path: str, cut_off: bool) -> Iterator[bytes]:
    stream = gzip.GzipFile(fileobj=io.BytesIO(data))
    try:
        while piece := stream.read1(_PIECE):
            yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        if not cut_off:
            told = f"the gzip data is damaged or cut off: {error}"
            raise FormatError(told, path=path) from None


def _within(pieces: Iterator[bytes], size: int, path: str) -> Iterator[bytes]:
    left = _MOST_TIMES * size + _ROOM
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise FormatError(
                f"unpacks to more than {_MOST_TIMES} times its size, as no recording does; unpack it first "
                "if that is right",
                path=path,
            )
        yield piece
