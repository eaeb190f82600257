"""The index of a library: `library.json` in a folder, or at a URL, beside the bundles that it lists.

An object with `format` "chakra-library", `version` 1 and `bundles`: name, file (a plain name, in the same
folder), bytes, sha256, licence, what it is, the machine it ran on, and `step_ns`, the step as it was timed
without recording; `edit` says what was changed in the program, where something was. Nothing of a bundle is
read before its size and checksum are right.
"""

from __future__ import annotations

import hashlib
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

from chakrakit.configuration import decode_json
from chakrakit.errors import ConfigError, FormatError
from chakrakit.results import Result

INDEX = "library.json"
FORMAT = "chakra-library"
LARGEST_INDEX = 1 << 20
"""Bytes of an index: some thousand bundles."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A name without folders, that is the same on every system."""
_SECONDS = 60.0
"""Until a server that does not answer is given up."""


class LibraryEntry(Result, msgspec.Struct, kw_only=True, frozen=True):
    """A bundle of a library, and what is true of it."""

    name: Annotated[str, msgspec.Meta(pattern=f"^{_PLAIN.pattern}$")]
    file: Annotated[str, msgspec.Meta(pattern=f"^{_PLAIN.pattern}$")]
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    licence: str = ""
    about: str = ""
    machine: str = ""
    step_ns: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """The step as it was timed without recording; 0 where it was not."""
    edit: str = ""
    """What was changed in the program, and in the trace; empty for the program as it was."""


class LibraryIndex(Result, msgspec.Struct, kw_only=True, frozen=True):
    """Everything a library lists."""

    format: Literal["chakra-library"] = FORMAT  # type: ignore[assignment]
    version: Literal[1] = 1
    bundles: list[LibraryEntry] = []
    source: str = ""
    """Where it was read: a folder or a URL."""

    def entry(self, name: str) -> LibraryEntry:
        """The bundle of this name."""
        for entry in self.bundles:
            if entry.name == name:
                return entry
        known = ", ".join(e.name for e in self.bundles[:10]) or "nothing"
        raise ConfigError(f"{self.source} has no bundle {name!r}; it has {known}")

    def table_rows(self) -> Sequence[msgspec.Struct]:
        """The bundles."""
        return self.bundles


def is_url(source: str) -> bool:
    """Whether a library lies on a server."""
    return source.startswith(("http://", "https://"))


def opened(source: str, name: str) -> BinaryIO:
    """A file of a library, for reading; its name has no folders in it."""
    if not is_url(source):
        try:
            return (Path(source) / name).open("rb")
        except OSError as error:
            hint = f"; a library is a folder with {INDEX}, or its URL" if name == INDEX else ""
            raise ConfigError(f"{Path(source) / name}: {error.strerror or error}{hint}") from None
    address = source.rstrip("/") + "/" + urllib.parse.quote(name)
    try:
        reply: BinaryIO = urllib.request.urlopen(address, timeout=_SECONDS)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise ConfigError(f"{address}: {getattr(error, 'reason', error)}") from None
    if not is_url(getattr(reply, "url", address)):
        reply.close()
        raise ConfigError(f"{address} leads elsewhere than to http or https")
    return reply


def read_index(source: str | Path) -> LibraryIndex:
    """The index of a folder or a URL; both may also name the index file itself."""
    place = str(source).removesuffix("/" + INDEX)
    with opened(place, INDEX) as stream:
        text = stream.read(LARGEST_INDEX + 1)
    if len(text) > LARGEST_INDEX:
        raise FormatError(f"{place}/{INDEX} has more than {LARGEST_INDEX:,} bytes")
    index = decode_json(text, LibraryIndex, f"{place}/{INDEX}", "the index of a library")
    names = [entry.name for entry in index.bundles]
    for name in names:
        if names.count(name) > 1:
            raise FormatError(f"{place}/{INDEX} lists {name!r} twice")
    return msgspec.structs.replace(index, source=place)


def entry_of(bundle: str | Path, **facts: Any) -> LibraryEntry:
    """The line of an index for a bundle that lies here, under its own name unless another is given."""
    path = Path(bundle)
    known = {"name": path.stem, "file": path.name, "bytes": path.stat().st_size}
    return msgspec.convert({**known, "sha256": sha256_of(path), **facts}, LibraryEntry)


def write_index(folder: str | Path, entries: Sequence[LibraryEntry]) -> None:
    """Writes the index of bundles that lie in a folder."""
    index = LibraryIndex(bundles=list(entries))
    text = msgspec.json.format(msgspec.json.encode(index), indent=1)
    (Path(folder) / INDEX).write_bytes(text + b"\n")


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
