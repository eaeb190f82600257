"""Bytes in and out: files, pipes and stdin; plain, gzip and zstd, told by content; Parquet tables."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.files.bundle_files import BundlePath
from chakrakit.trace.files.temporary import claimed, followed, scratch

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

STDIO = "-"
Source = str | os.PathLike[str] | IO[bytes] | BundlePath
_BUFFER = 1 << 20
"""Bytes read at a time; also what a tiny compressed file may unfold into whatever its size."""
_MOST_TIMES = 1000
"""How much smaller compression makes a trace at most; the most regular ones come to a few hundred."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""First bytes of compressed files."""


def display_name(path: Source) -> str:
    """The name of this source in a message."""
    if isinstance(path, BundlePath):
        return str(path)
    if isinstance(path, (str, os.PathLike)):
        return "<stdin>" if os.fspath(path) == STDIO else os.fspath(path)
    return str(getattr(path, "name", "<stream>"))


@contextlib.contextmanager
def open_input(path: Source) -> Iterator[io.BufferedReader]:
    """A decompressed, buffered stream that can peek. Damage to the compression is a FormatError."""
    name = display_name(path)
    with contextlib.ExitStack() as stack, _damage(name):
        raw = _open_raw(path, stack)
        head = raw.peek(4)[:4]
        if head.startswith(GZIP):
            yield _unfolding(cast(IO[bytes], gzip.GzipFile(fileobj=raw)), raw, name)
        elif head == ZSTD:
            yield _unfolding(_zstd_reader(raw), raw, name)
        else:
            yield raw


def _open_raw(path: Source, stack: contextlib.ExitStack) -> io.BufferedReader:
    if isinstance(path, BundlePath):
        return stack.enter_context(path.open())
    if not isinstance(path, (str, os.PathLike)):
        return _buffered(path)
    if os.fspath(path) == STDIO:
        if sys.stdin is None:
            raise ChakraError("standard input is closed; give a file, or pipe one in")
        return _buffered(sys.stdin.buffer)
    raw = stack.enter_context(io.FileIO(os.fspath(path)))
    return io.BufferedReader(raw, _BUFFER) if raw.seekable() else _buffered(raw)


def _buffered(stream: IO[bytes] | io.RawIOBase) -> io.BufferedReader:
    """A reader that leaves the stream open and whose first peek sees more than a pipe's first bytes."""
    if isinstance(stream, io.BufferedReader) and stream.seekable():
        return stream
    return io.BufferedReader(_Patient(stream), _BUFFER)


def _unfolding(stream: IO[bytes], raw: io.BufferedReader, name: str) -> io.BufferedReader:
    """What a compressed file holds, up to a limit that follows its size; a pipe has no size to go by."""
    if not raw.seekable():
        return _buffered(stream)
    position = raw.tell()
    size = raw.seek(0, io.SEEK_END)
    raw.seek(position)
    return io.BufferedReader(_Patient(stream, _MOST_TIMES * size + _BUFFER, name), _BUFFER)


class _Patient(io.RawIOBase):
    """Another stream, read until a buffer is full or nothing is left; at most so many bytes in all."""

    def __init__(
        self, stream: IO[bytes] | io.RawIOBase, most: int | None = None, name: str = ""
    ) -> None:
        self._stream = stream
        self._most, self._name, self._read = most, name, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view, filled = memoryview(buffer).cast("B"), 0  # type: ignore[arg-type]
        while filled < len(view):
            data = self._stream.read(len(view) - filled)
            if not data:
                break
            view[filled : filled + len(data)] = data
            filled += len(data)
        self._read += filled
        if self._most is not None and self._read > self._most:
            raise FormatError(
                f"unfolds into more than {_MOST_TIMES:,} times its size, as no trace does; "
                "decompress it first if that is right",
                path=self._name,
            )
        return filled


def _zstd_reader(raw: io.BufferedReader) -> IO[bytes]:
    import pyarrow as pa

    return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))


@contextlib.contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"the gzip data is damaged or cut off: {error}", path=name) from None
    except OSError as error:
        if error.errno is not None:
            raise ChakraError(f"{name}: cannot be read: {error.strerror}") from None
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
    """A temporary path that takes the place of `target` when the block ends well.

    Through a link, the place of the file it leads to. A device or a pipe keeps its place: what was written
    goes into it.
    """
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        if is_device(target):
            with scratch(target.name) as folder:
                yield folder / target.name
                _poured(folder / target.name, target)
            return
        file = followed(target)
        file.parent.mkdir(parents=True, exist_ok=True)
        with claimed(file) as temporary:
            yield temporary
            temporary.replace(file)
    except BaseException as error:
        remove_empty(missing)
        if isinstance(error, OSError) and error.errno is not None:
            raise ChakraError(f"{target}: cannot be written: {error.strerror}") from None
        raise


def is_device(path: Path) -> bool:
    """Whether this is there and neither a file nor a folder: a device, a pipe, a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _poured(source: Path, device: Path) -> None:
    with source.open("rb") as stream, device.open("wb") as sink:
        shutil.copyfileobj(stream, sink)


def remove_empty(folders: list[Path]) -> None:
    """Takes back directories made for what then was not written."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


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


# Gzip files that are read whole: unpacked within a limit that follows their size.

_PIECE = 1 << 20
"""Bytes unpacked at a time, after each of which the limit is checked."""
_MOST_TIMES_IN_MEMORY = 100
"""The most regular recordings shrink to a thirtieth; gzip itself ends at a thousandth."""
_SMALL_FILE_ROOM = 64 << 20
"""Bytes that any file may unpack to, however small: they fit into memory anywhere."""


def unpacked(data: bytes, path: str, cut_off: bool = False) -> bytes:
    """A file's bytes, unpacked if they are gzip or zstd; with `cut_off`, of one that is cut what is there."""
    if not data.startswith((GZIP, ZSTD)):
        return data
    return b"".join(_within(_pieces(data, path, cut_off), len(data), path))


def first_unpacked(data: bytes, most: int) -> bytes:
    """The first bytes that the beginning of a file unpacks to; a zlib.error if it is damaged."""
    if data.startswith(GZIP):
        return zlib.decompressobj(31).decompress(data, most)
    if not data.startswith(ZSTD):
        return data
    try:
        return next(_pieces(data, "", cut_off=True), b"")[:most]
    except OSError as error:
        raise zlib.error(str(error)) from None


def _pieces(data: bytes, path: str, cut_off: bool) -> Iterator[bytes]:
    kind = "gzip" if data.startswith(GZIP) else "zstd"
    # What is there before a cut: `read` of gzip gives nothing of the last piece.
    read = _unzstd(data).read if kind == "zstd" else gzip.GzipFile(fileobj=io.BytesIO(data)).read1
    try:
        while piece := read(_PIECE):
            yield piece
    except (EOFError, OSError, zlib.error) as error:  # BadGzipFile and Arrow's are OSErrors
        if not cut_off:
            message = f"the {kind} data is damaged or cut off: {error}"
            raise FormatError(message, path=path) from None


def _unzstd(data: bytes) -> IO[bytes]:
    import pyarrow as pa

    return cast(IO[bytes], pa.CompressedInputStream(pa.BufferReader(data), "zstd"))


def _within(pieces: Iterator[bytes], size: int, path: str) -> Iterator[bytes]:
    remaining = _MOST_TIMES_IN_MEMORY * size + _SMALL_FILE_ROOM
    for piece in pieces:
        remaining -= len(piece)
        if remaining < 0:
            raise FormatError(
                f"unpacks to more than {_MOST_TIMES_IN_MEMORY} times its size, as no recording does; "
                "unpack it first if that is right",
                path=path,
            )
        yield piece


_VALUE_BYTES = 8
"""Of a value in memory, as most columns have them."""
_ROWS_FOR_THREADS = 1 << 16
"""Rows from which Arrow reads a table's columns side by side: below, one thread takes some milliseconds."""


def is_large(file: pq.ParquetFile) -> bool:
    """Whether threads are worth starting for a table."""
    return int(file.metadata.num_rows) >= _ROWS_FOR_THREADS


def parquet_file(source: Any, **options: Any) -> pq.ParquetFile:
    """A file whose pieces are read when they are asked for.

    Arrow's threads would read them ahead and may still hold memory of Python's when a command ends at once:
    the process would abort.
    """
    # Only here: commands that read no table start without Arrow.
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, pre_buffer=False, **options)


def read_parquet(source: IO[Any], path: str, expected: str = "Parquet file") -> pa.Table:
    """A whole table, checked; a FormatError names the file and says what it should have been."""
    import pyarrow as pa

    try:
        file = parquet_file(source)
        _check_room(file, source, path)
        table = file.read(use_threads=is_large(file))
        table.validate(full=True)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"not the {expected} it should be: {reason}", path=path) from None
    check_columns(names, path)
    return table


def _check_room(file: pq.ParquetFile, source: IO[Any], path: str) -> None:
    """Refuses a table whose values take far more room than its file: in there, rows all alike take none."""
    rows, columns = file.metadata.num_rows, file.metadata.num_columns
    size = source.seek(0, os.SEEK_END)
    if rows * columns * _VALUE_BYTES > _MOST_TIMES_IN_MEMORY * size + _SMALL_FILE_ROOM:
        raise FormatError(
            f"{rows:,} rows of {columns} columns in {size:,} bytes, more than any recording packs into so "
            "few; write it again with its tool",
            path=path,
        )


def check_columns(names: Iterable[str], path: str) -> None:
    """Refuses a table in which two columns have the same name: either could be meant."""
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        raise FormatError(f"column {name!r} is there {times} times; keep one of them", path=path)
