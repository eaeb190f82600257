"""Feeder: hands out a trace's nodes in an order their dependencies allow, reading as it goes."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

import chakrakit.core as core
from chakrakit.arrays import U64
from chakrakit.errors import ChakraError, DeadlockError, FormatError, TraceError
from chakrakit.trace.files import GZIP, STDIO, ZSTD, display_name

FeedNode = core.FeedNode


FEED_DTYPE = np.dtype(
    [
        ("id", np.uint64),
        ("start_time_micros", np.uint64),
        ("duration_micros", np.uint64),
        ("num_ops", np.int64),
        ("tensor_size", np.int64),
        ("comm_type", np.int64),
        ("comm_size", np.int64),
        ("comm_src", np.int64),
        ("comm_dst", np.int64),
        ("comm_tag", np.int64),
        ("comm_priority", np.int64),
        ("type", np.int32),
        ("is_cpu_op", np.bool_),
    ],
    align=True,
)
"""A row of `Feeder.take_batch`; what a node does not say has FeedNode's default."""


class Feeder:
    """Gives out the nodes of one `.et` trace as their dependencies are met.

    The source is a path (plain, gzip or zstd, told by content; a pipe; `-` for standard input) or
    a binary file. A node is read, becomes ready when every node it depends on is done, is taken,
    and is done:

        with Feeder("rank.0.et") as feeder:
            while (node := feeder.take()) is not None:
                ...
                feeder.done(node.id)

    `take` gives the lowest id of the ready nodes, or None if all that could run is in flight or
    the trace is finished (`finished` tells which). It reads on while fewer than `window` nodes are
    read and not taken, and past that while nothing is ready and nothing in flight: so it never
    stalls, and memory follows the window and what waits for nodes further on, not the file. The
    order depends on the trace, the window and the order of `done` alone.

    `ctrl=False` counts data_deps only. `missing="ignore"` lets nodes run whose dependency is not
    in the trace; by default that is a DeadlockError at the end of input, and a cycle is one when
    nothing else is left. Damaged input is a FormatError as soon as it is read. Calls for a node in
    the wrong state raise TraceError and change nothing.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | BinaryIO,
        window: int = 65536,
        ctrl: bool = True,
        *,
        missing: Literal["error", "ignore"] = "error",
    ) -> None:
        if window < 1:
            raise TraceError(f"window must be at least 1, not {window}")
        if missing not in ("error", "ignore"):
            raise TraceError(f"missing must be 'error' or 'ignore', not {missing!r}")
        self._path = display_name(source)
        self._closing = contextlib.ExitStack()
        with contextlib.ExitStack() as opened, self._translated():
            read = _open(source, self._path, opened)
            self.core = core.Feeder(read, window, ctrl, missing == "ignore")
            self._closing = opened.pop_all()

    def take(self) -> FeedNode | None:
        """The ready node with the lowest id, now in flight; None if there is none."""
        try:
            return self.core.take()
        except _CORE_ERRORS as error:
            raise self._translate(error) from None

    def take_id(self, id: int) -> FeedNode:
        """Takes one of the ready nodes, for callers that choose for themselves."""
        with self._translated():
            return self.core.take_id(id)

    def take_batch(self, n: int) -> npt.NDArray[np.void]:
        """Takes up to `n` nodes, as so many calls of `take` would: an array of FEED_DTYPE."""
        try:
            return self.core.take_batch(n).view(FEED_DTYPE)
        except _CORE_ERRORS as error:
            raise self._translate(error) from None

    def done(self, id: int) -> None:
        """A node in flight is done: nodes that waited for nothing else become ready."""
        try:
            self.core.done(id)
        except _CORE_ERRORS as error:
            raise self._translate(error) from None

    def done_batch(self, ids: npt.ArrayLike) -> None:
        """`done` for each of `ids`; stops at the first that is not in flight."""
        try:
            self.core.done_batch(np.asarray(ids, dtype=np.uint64))
        except _CORE_ERRORS as error:
            raise self._translate(error) from None

    def push_back(self, id: int) -> None:
        """Gives a node in flight back; it is ready again."""
        with self._translated():
            self.core.push_back(id)

    def ready(self) -> U64:
        """Ids of the nodes that `take` could give now, ascending."""
        with self._translated():
            return self.core.ready()

    def lookup(self, id: int) -> FeedNode | None:
        """A node that was read and is not done, or None."""
        return self.core.lookup(id)

    def children(self, id: int) -> U64:
        """Ids, ascending, of nodes read so far that wait for this one."""
        return self.core.children(id)

    @property
    def in_flight(self) -> int:
        """How many nodes are taken and not done."""
        return self.core.in_flight()

    @property
    def finished(self) -> bool:
        """Every node is done. Reads on if that is needed to know."""
        with self._translated():
            return self.core.finished()

    def __iter__(self) -> Iterator[FeedNode]:
        """Every node in turn, each done when the loop moves on from it."""
        while (node := self.take()) is not None:
            yield node
            self.done(node.id)
        if self.in_flight:
            waits = f"{self.in_flight} nodes taken outside the loop are not done"
            raise TraceError(f"{self._path}: nothing is left to iterate over: {waits}")

    def close(self) -> None:
        """Closes what the feeder opened itself; calls that would read fail after it."""
        with self._translated():
            self.core.close()
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _CORE_ERRORS as error:
            raise self._translate(error) from None

    def _translate(self, error: Exception) -> ChakraError:
        message, detail = error.args
        if isinstance(error, core.FormatError):
            return FormatError(message, path=self._path, offset=detail)
        kind = DeadlockError if detail else TraceError
        return kind(f"{self._path}: {message}")


class FeederPaths(NamedTuple):
    """What a compiler needs to build against the C feeder, `#include <chakrakit/feeder.h>`."""

    include: Path
    """Folder for -I."""
    library: Path
    """The file of libchakrafeeder."""
    library_dir: Path
    """Folder for -L and -Wl,-rpath."""

    @property
    def flags(self) -> str:
        """Everything a gcc or clang command needs, after the sources."""
        link = f"-L{self.library_dir} -Wl,-rpath,{self.library_dir} -lchakrafeeder"
        return f"-I{self.include} {link}"


def feeder_paths() -> FeederPaths:
    """Say where the header and the shared library of the C feeder are installed.

    Examples
    --------
    >>> ck.feeder_paths().include.is_dir()
    True

    """
    home = Path(str(core.__file__)).parent
    libraries = sorted((home / "lib").glob("libchakrafeeder.*"))
    if not libraries:
        raise TraceError(f"libchakrafeeder is not in {home / 'lib'}: reinstall chakrakit")
    return FeederPaths(home / "include", libraries[0], home / "lib")


_CORE_ERRORS = (core.FormatError, core.FeedError)


def _open(
    source: str | os.PathLike[str] | BinaryIO, path: str, opened: contextlib.ExitStack
) -> str | Callable[[int], bytes]:
    """What the core reads from: the path of a plain file, or a function that gives bytes."""
    if not isinstance(source, (str, os.PathLike)):
        return _unpacked(source, path, opened)
    if os.fspath(source) == STDIO:
        return _unpacked(sys.stdin.buffer, path, opened)
    file = opened.enter_context(Path(source).open("rb"))  # noqa: SIM115 - the stack closes it
    if file.seekable() and not file.peek(4).startswith((GZIP, ZSTD)):
        file.close()
        return path
    return _unpacked(file, path, opened)


def _unpacked(file: BinaryIO, path: str, opened: contextlib.ExitStack) -> Callable[[int], bytes]:
    """Reads the file's bytes, or those that are packed in it."""
    head = _read_head(file)
    whole = io.BufferedReader(_Rejoined(head, file))
    if head.startswith(GZIP):
        unzip = opened.enter_context(gzip.GzipFile(fileobj=whole))
        return _checked(unzip.read1, path)
    if head.startswith(ZSTD):
        import pyarrow as pa  # costs 100 ms, and few traces need it

        stream = opened.enter_context(pa.input_stream(whole, compression="zstd"))
        return _checked(stream.read, path)
    return whole.read1


def _read_head(file: BinaryIO) -> bytes:
    """The first four bytes, however few a pipe gives at a time."""
    head = b""
    while len(head) < 4 and (more := file.read(4 - len(head))):
        head += more
    return head


class _Rejoined(io.RawIOBase):
    """A stream of which the first bytes were read already."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = head
        # A pipe gives what it has at once through read1; read would wait for all of n.
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(buffer)] or self._read(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def _checked(read: Callable[[int], bytes], path: str) -> Callable[[int], bytes]:
    """The same function, with what it raises for damaged data made a FormatError."""

    def checked(n: int) -> bytes:
        try:
            return read(n)
        except (EOFError, OSError, ValueError, zlib.error) as error:
            raise FormatError(f"the compressed data is damaged: {error}", path=path) from error

    return checked
