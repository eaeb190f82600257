"""Outputs that are whole or not there: written under a hidden name, then put in place at once.

A temporary is `.NAME.XXXXXXXX.tmp` beside what it will become, and locked while its writer lives. What a
killed writer left is recognised by its free lock, and removed by the next writer to the same place.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from chakrakit.errors import ChakraError
from chakrakit.start_up import ENDING

try:
    import fcntl
except ImportError:  # without locks, what a killed writer left cannot be told, and stays
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.tmp", re.DOTALL)
_KEPT_CHARACTERS = 200
"""Of the target's name; with the 14 around them they stay below the 255 bytes of Linux's file names."""


def temporary_name(target: Path) -> Path:
    """A new name beside the target."""
    return target.with_name(f".{target.name[:_KEPT_CHARACTERS]}.{secrets.token_hex(4)}.tmp")


def followed(path: Path) -> Path:
    """Where a path leads through links."""
    try:
        return path.resolve()
    except RuntimeError:
        raise ChakraError(f"{path}: a link that leads to itself; give another name") from None


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A private folder in the system's temporary directory, removed at the end of the block."""
    with claimed(Path(tempfile.gettempdir(), name), folder=True, mode=0o700) as folder:
        yield folder


@contextlib.contextmanager
def private_temporary(name: str) -> Iterator[Path]:
    """A private temporary directory for this process and those it starts, removed with the block.

    So are variables that name places in it: PyTorch leaves one for its compiler's cache.
    """
    variable, previous_folder = os.environ.get("TMPDIR"), tempfile.tempdir
    with scratch(name) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = previous_folder
            for left in [n for n, value in os.environ.items() if value.startswith(str(folder))]:
                del os.environ[left]
            if variable is not None:
                os.environ["TMPDIR"] = variable


@contextlib.contextmanager
def claimed(target: Path, *, folder: bool = False, mode: int = 0o777) -> Iterator[Path]:
    """A new empty file or folder beside `target`, locked, and removed at the end unless it was moved."""
    remove_stale(target)
    path, lock = temporary_name(target), -1
    try:
        lock = _create(path, folder, mode)
        while not path.exists():  # somebody took it for stale before it was locked
            os.close(lock)
            path, lock = temporary_name(target), -1
            lock = _create(path, folder, mode)
        yield path
    finally:
        with uninterrupted():
            _remove(path)
            if lock >= 0:
                os.close(lock)


def _create(path: Path, folder: bool, mode: int) -> int:
    """Makes it and takes its lock; the lock ends with the process, however that ends."""
    if folder:
        path.mkdir(mode)
        descriptor = os.open(path, os.O_RDONLY)
    else:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode & 0o666)
    _lock(descriptor)
    return descriptor


def _lock(descriptor: int) -> bool:
    """Whether the lock could be had; file systems without locks never give one."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_stale(target: Path) -> None:
    """Removes what dead writers to this target left behind."""
    if _TEMPORARY.fullmatch(target.parent.name):
        return  # inside a temporary there is one writer, and nothing stale
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            match = _TEMPORARY.fullmatch(entry.name)
            if match is not None and match["name"] == target.name[:_KEPT_CHARACTERS]:
                _remove_unlocked(Path(entry.path))


def _remove_unlocked(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if _lock(descriptor):
                _remove(path)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


_RENAME_EXCHANGE, _AT_FDCWD = 2, -100
"""Constants of Linux's linux/fs.h and fcntl.h."""


def take_place(temporary: Path, target: Path) -> None:
    """The temporary becomes the target; what was there before is then under the temporary's name.

    On Linux the two change places in one step. Elsewhere a directory is away for a moment, in which
    only SIGKILL or a power cut can leave it so.
    """
    with uninterrupted():
        if not target.is_dir():
            temporary.replace(target)
        elif not _exchange(temporary, target):
            _change_places(temporary, target)


def _change_places(temporary: Path, target: Path) -> None:
    old = temporary_name(target)
    target.rename(old)
    try:
        temporary.rename(target)
    except BaseException:
        old.rename(target)
        raise
    old.rename(temporary)


def _exchange(a: Path, b: Path) -> bool:
    """Whether the two could be exchanged in one step."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(code, os.strerror(code), str(b))


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that would end the program wait until the block has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled by the main thread alone
        return
    waiting: list[int] = []

    def later(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)

    before = {s: signal.signal(s, later) for s in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for received in waiting:
            signal.raise_signal(received)
