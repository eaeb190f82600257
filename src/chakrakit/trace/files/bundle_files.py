"""Files and folders inside a bundle: a zip whose entries are stored as they are, listed with checksums.

Stored entries are slices of the archive: they are read where they lie, from any process, and cannot
unfold into more bytes than the archive has. An entry's SHA-256 is checked whenever it is opened.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from chakrakit.configuration import decode_json
from chakrakit.errors import FormatError

MANIFEST = "bundle.json"
FORMAT, VERSION = "chakra-bundle", 1
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PART = r"(?!\.+(?:/|$))[^/\\:\x00-\x1f]+"
_SAFE = re.compile(f"{_PART}(?:/{_PART})*")
_LOCAL = struct.Struct("<4s22xHH")
_BLOCK = 1 << 20
"""Bytes read at a time while a checksum is computed."""


class ListedFile(msgspec.Struct, frozen=True):
    """A line of the manifest."""

    name: str
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`bundle.json`: every other file of the bundle, and the card of the workload."""

    format: str
    version: int
    tool: str = ""
    card: msgspec.Raw = msgspec.Raw(b"{}")
    members: list[ListedFile]


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a bundle; `member` is empty where it is the whole."""

    member: str
    problem: str


class Entry(msgspec.Struct, frozen=True):
    """Where a file lies in the archive, and what it should be."""

    header: int
    size: int
    sha256: str


@dataclass(frozen=True)
class BundlePath:
    """A file or folder in a bundle, read as a `pathlib.Path` is; "" is the bundle itself.

    `files` are those at or below it: a file carries what it takes to open it in another process.
    """

    archive: str
    inner: str
    files: Mapping[str, Entry] = field(repr=False)

    @property
    def name(self) -> str:
        """The last part."""
        return (self.inner or self.archive).rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return Path(self.name).stem

    def __str__(self) -> str:
        return f"{self.archive}/{self.inner}".rstrip("/")

    def __truediv__(self, name: str) -> BundlePath:
        inner = f"{self.inner}/{name}".lstrip("/")
        below = {n: e for n, e in self.files.items() if n == inner or n.startswith(f"{inner}/")}
        return BundlePath(self.archive, inner, below)

    def is_file(self) -> bool:
        """Whether it is a file of the bundle."""
        return self.inner in self.files

    def is_dir(self) -> bool:
        """Whether it is the bundle, or there are files in it."""
        return not self.inner or (bool(self.files) and not self.is_file())

    def exists(self) -> bool:
        """Whether it is a file or a folder of the bundle."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Iterator[BundlePath]:
        """What is in it, by name."""
        start = f"{self.inner}/" if self.inner else ""
        below: dict[str, dict[str, Entry]] = {}
        for name, entry in self.files.items():
            part = name[len(start) :].partition("/")[0]
            below.setdefault(start + part, {})[name] = entry
        return (BundlePath(self.archive, inner, below[inner]) for inner in sorted(below))

    def walk(self) -> Iterator[BundlePath]:
        """Every file at or below it."""
        return (BundlePath(self.archive, n, {n: e}) for n, e in self.files.items())

    def read_bytes(self) -> bytes:
        """All of a file."""
        with self.open() as stream:
            return stream.read()

    def open(self, mode: Literal["rb"] = "rb") -> io.BufferedReader:
        """A file's bytes, after they were found to be those that the manifest lists."""
        stream: io.BufferedReader = io.BufferedReader(self._slice(), _BLOCK)
        try:
            if digest(stream) != self.files[self.inner].sha256:
                raise FormatError(
                    "is not what the bundle's list says (SHA-256): damaged or changed "
                    "since; get the bundle again",
                    path=str(self),
                )
            stream.seek(0)
        except BaseException:
            stream.close()
            raise
        return stream

    def _slice(self) -> _Slice:
        entry = self.files[self.inner]
        file = io.FileIO(self.archive)
        try:
            file.seek(entry.header)
            head = file.read(_LOCAL.size)
            if len(head) < _LOCAL.size or not head.startswith(ZIP[0]):
                raise FormatError("the zip entry is damaged", path=str(self))
            _, name, extra = _LOCAL.unpack(head)
            return _Slice(file, entry.header + _LOCAL.size + name + extra, entry.size)
        except BaseException:
            file.close()
            raise


class _Slice(io.RawIOBase):
    """A range of a file's bytes, read as if it were a whole file."""

    def __init__(self, file: io.FileIO, begin: int, size: int) -> None:
        self._file, self._begin, self._size, self._at = file, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"seek to {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        length = max(min(len(view), self._size - self._at), 0)
        self._file.seek(self._begin + self._at)
        count = self._file.readinto(view[:length]) or 0
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def digest(stream: io.BufferedIOBase) -> str:
    """The SHA-256 of the rest of a stream."""
    sha256 = hashlib.sha256()
    while block := stream.read(_BLOCK):
        sha256.update(block)
    return sha256.hexdigest()


# --- opening --------------------------------------------------------------------------------------


def is_bundle(place: Path) -> bool:
    """Whether a file begins as a zip does, which no trace can."""
    if not place.is_file():
        return False
    with place.open("rb") as file:
        return file.read(4) in ZIP


def open_bundle(path: Path) -> BundlePath:
    """Opens a bundle; a FormatError names the first problem that can be found without reading its files."""
    _, folder, problems = inspect_bundle(path)
    if problems:
        first = problems[0]
        where = f"{path}/{first.member}" if first.member else str(path)
        raise FormatError(first.problem, path=where)
    return folder


def inspect_bundle(path: Path) -> tuple[Manifest, BundlePath, list[Problem]]:
    """A bundle's manifest, the listed files that it has, and the problems found without reading them."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            problems = [Problem(i.filename, p) for i in infos if (p := _unsafe(i))]
            manifest = _manifest(archive, path, problems)
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        NotImplementedError,
        EOFError,
        ValueError,
    ) as error:
        raise FormatError(f"not a bundle, or cut off: {error}", path=str(path)) from None
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
    infos_by_name = {i.filename: i for i in infos if i.filename != MANIFEST}
    problems += _differences(infos_by_name, manifest, len(infos), path)
    files = {
        m.name: Entry(infos_by_name[m.name].header_offset, m.bytes, m.sha256)
        for m in manifest.members
        if m.name in infos_by_name
    }
    return manifest, BundlePath(str(path), "", files), problems


def _unsafe(info: zipfile.ZipInfo) -> str | None:
    """Why an entry must not be used."""
    if not _SAFE.fullmatch(info.filename):
        return "a name that could lead out of the bundle, or is not that of a plain file"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "is a link or special file; a bundle holds plain files only"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        return (
            "is compressed by zip; bundles store files as they are (make it with `chakra bundle`)"
        )
    return None


def _manifest(archive: zipfile.ZipFile, path: Path, problems: list[Problem]) -> Manifest:
    if MANIFEST not in archive.NameToInfo:
        raise FormatError(
            f"a zip without {MANIFEST}, so not a bundle; `chakra bundle` makes one", path=str(path)
        )
    if any(p.member == MANIFEST for p in problems):
        raise FormatError(problems[0].problem, path=f"{path}/{MANIFEST}")
    place = f"{path}/{MANIFEST}"
    manifest = decode_json(archive.read(MANIFEST), Manifest, place, "a bundle's list")
    if manifest.format != FORMAT or manifest.version > VERSION:
        raise FormatError(
            f"format {manifest.format!r} version {manifest.version}; this chakrakit reads "
            f"{FORMAT!r} up to {VERSION}",
            path=f"{path}/{MANIFEST}",
        )
    return manifest


def _differences(
    infos_by_name: Mapping[str, zipfile.ZipInfo], manifest: Manifest, entries: int, path: Path
) -> Iterator[Problem]:
    """Problems where the manifest and the zip disagree."""
    names = [m.name for m in manifest.members]
    if len(set(names)) < len(names) or entries != len(infos_by_name) + 1:
        yield Problem("", "a file is there or listed twice")
    for member in manifest.members:
        info = infos_by_name.get(member.name)
        if info is None:
            yield Problem(member.name, "is listed and not there")
        elif info.file_size != member.bytes:
            yield Problem(member.name, f"has {info.file_size:,} bytes; {member.bytes:,} are listed")
    for name in sorted(infos_by_name.keys() - set(names)):
        yield Problem(name, "is there and not listed")
    if sum(i.file_size for i in infos_by_name.values()) > path.stat().st_size:
        yield Problem("", "its files overlap: together they are larger than the bundle")
