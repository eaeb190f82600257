"""Fetching a bundle of a library: its size and checksum are right before it gets its name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from chakrakit.errors import ConfigError, FormatError
from chakrakit.results import Result
from chakrakit.trace.files import claimed, remove_empty, take_place
from chakrakit.trace.library.index import LibraryEntry, LibraryIndex, opened, sha256_of

LARGEST_BUNDLE = 8 << 30
"""Bytes that a bundle may have unless more is allowed."""
_BLOCK = 1 << 20
"""Bytes read at once: enough that the time is the network's."""


class FetchedBundle(Result, msgspec.Struct, frozen=True):
    """A bundle that is here now."""

    path: str
    entry: LibraryEntry
    fetched: bool
    """False where it was here already, with the same checksum."""


def fetch(
    index: LibraryIndex, name: str, folder: Path, most_bytes: int = LARGEST_BUNDLE
) -> FetchedBundle:
    """Puts a bundle of the library into a folder, under its file's name."""
    entry = index.entry(name)
    if entry.bytes > most_bytes:
        raise ConfigError(
            f"{name} has {entry.bytes:,} bytes, and {most_bytes:,} are allowed; "
            f"give --most-bytes {entry.bytes}"
        )
    target = folder / entry.file
    if target.is_file() and sha256_of(target) == entry.sha256:
        return FetchedBundle(str(target), entry, False)
    if target.exists():
        raise ConfigError(f"{target} is there and is another file; move it, or give another -o DIR")
    missing = [place for place in target.parents if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with claimed(target) as part:
            _copied(index.source, entry, part)
            take_place(part, target)
    except BaseException:
        remove_empty(missing)
        raise
    return FetchedBundle(str(target), entry, True)


def _copied(source: str, entry: LibraryEntry, part: Path) -> None:
    """Copies what the index promises and not a byte more."""
    digest, left = hashlib.sha256(), entry.bytes
    with opened(source, entry.file) as stream, part.open("wb") as file:
        while block := stream.read(min(_BLOCK, left + 1)):
            left -= len(block)
            if left < 0:
                raise FormatError(
                    f"{source}/{entry.file} has more than the {entry.bytes:,} bytes listed"
                )
            digest.update(block)
            file.write(block)
    if left:
        raise FormatError(f"{source}/{entry.file} ends {left:,} bytes early")
    if digest.hexdigest() != entry.sha256:
        raise FormatError(
            f"{source}/{entry.file}: its checksum is not the one listed; nothing was kept"
        )
