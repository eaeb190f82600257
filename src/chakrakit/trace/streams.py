"""Bytes in and out: files, pipes and stdin; plain, gzip and zstd, told by content."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from chakrakit.errors import ChakraError, FormatError

STDIO = "-"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def display_name(path: str | os.PathLike[str] | IO[bytes]) -> str:
    """How to call this source in a message."""
    if isinstance(path, (str, os.PathLike)):
        return "<stdin>" if os.fspath(path) == STDIO else os.fspath(path)
    return str(getattr(path, "name", "<stream>"))


@contextlib.contextmanager
def open_input(path: str | os.PathLike[str] | IO[bytes]) -> Iterator[io.BufferedReader]:
    """A decompressed, buffered stream that can peek. Damage to the compression is a FormatError."""
    name = display_name(path)
    with contextlib.ExitStack() as stack:
        raw = _open_raw(path, stack)
        head = raw.peek(4)[:4]
        stream = raw
        if head.startswith(_GZIP):
            stream = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), 1 << 20)
        elif head == _ZSTD:
            stream = io.BufferedReader(_zstd_reader(raw), 1 << 20)
        with _damage(name):
            yield stream


def _open_raw(
    path: str | os.PathLike[str] | IO[bytes], stack: contextlib.ExitStack
) -> io.BufferedReader:
    if not isinstance(path, (str, os.PathLike)):
        return _buffered(path)
    if os.fspath(path) == STDIO:
        return _buffered(sys.stdin.buffer)
    try:
        return stack.enter_context(io.BufferedReader(io.FileIO(os.fspath(path)), 1 << 20))
    except OSError as error:
        raise ChakraError(f"{path}: cannot be read: {error.strerror}") from None


def _buffered(stream: IO[bytes]) -> io.BufferedReader:
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(cast(io.RawIOBase, stream), 1 << 20)


class _Arrow(io.RawIOBase):
    """An Arrow stream as Python's raw IO."""

    def __init__(self, stream: object) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data: bytes = self._stream.read(len(view))  # type: ignore[attr-defined]
        view[: len(data)] = data
        return len(data)


def _zstd_reader(raw: io.BufferedReader) -> io.RawIOBase:
    import pyarrow as pa

    return _Arrow(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))


@contextlib.contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"the gzip data is damaged or cut off: {error}", path=name) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise FormatError(f"the compressed data is damaged: {error}", path=name) from None


@contextlib.contextmanager
def open_output(path: str | os.PathLike[str], binary_only: bool = True) -> Iterator[BinaryIO]:
    """A stream that becomes the file when all is written; compressed as the suffix says.

    Until then the bytes are in a temporary file beside it, which an error removes.
    """
    target = os.fspath(path)
    if target == STDIO:
        if binary_only and sys.stdout.isatty():
            raise ChakraError(
                "will not write binary data to a terminal; redirect it or name a file"
            )
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with (
        replacing(Path(target)) as temporary,
        temporary.open("wb") as raw,
        _compressor(raw, target) as stream,
    ):
        yield stream


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path beside `target` that takes its place when the block ends well."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise ChakraError(f"{target}: cannot be written: {error.strerror}") from None
        raise


@contextlib.contextmanager
def _compressor(raw: BinaryIO, target: str) -> Iterator[BinaryIO]:
    if target.endswith(".gz"):
        # mtime 0: the same trace gives the same bytes.
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as stream:
            yield cast(BinaryIO, stream)
    elif target.endswith(".zst"):
        import pyarrow as pa

        with pa.CompressedOutputStream(pa.PythonFile(raw, "w"), "zstd") as stream:
            yield cast(BinaryIO, stream)
    else:
        yield raw
