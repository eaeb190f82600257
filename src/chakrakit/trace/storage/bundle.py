"""Bundles: a trace or run with its workload's card as one archive, `NAME.chakra`, with checksums.

NAME.chakra is a zip whose entries are not compressed by zip. It holds the files of a directory form
(`directory.py`; bodies as `.et.zst`), `files/` for what a user adds, and `bundle.json`: every other file
with its size and SHA-256, and the card. The same traces and card give the same bytes.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chakrakit import __version__
from chakrakit.errors import ChakraError, FormatError
from chakrakit.results import Result
from chakrakit.trace.files import (
    FORMAT,
    MANIFEST,
    VERSION,
    BundlePath,
    ListedFile,
    Manifest,
    Problem,
    claimed,
    digest,
    inspect_bundle,
    is_bundle,
    open_bundle,
    replacing,
)
from chakrakit.trace.sets import Card, TraceSet
from chakrakit.trace.storage.cards import (
    WORKLOAD,
    WorkloadCard,
    card_from,
    derived_card,
    overlaid,
    plain_card,
)
from chakrakit.trace.storage.directory import fill_directory, fresh_directory

_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first date: the same content gives the same bytes
_ADDED_FOLDER = "files"
_PROVENANCE = ("versions", "collection", "measured")


class BundleReport(Result, msgspec.Struct):
    """What a bundle holds, and what is wrong with it."""

    path: str
    ok: bool
    bytes: int
    members: list[ListedFile]
    problems: list[Problem]
    card: WorkloadCard


def write_bundle(
    traces: TraceSet,
    path: str | os.PathLike[str],
    card: Mapping[str, Any] | None = None,
    files: Sequence[str | os.PathLike[str]] = (),
    progress: Callable[[int], Any] = lambda _rank: None,
) -> BundleReport:
    """Packs traces, their card and other files into one archive.

    `card` holds fields of a WorkloadCard as nested dictionaries; they win over what the
    traces themselves say.
    """
    target = Path(path)
    whole = workload_card(traces, card or {})
    trace_card = traces.card.replace(extra={**traces.card.extra, WORKLOAD: plain_card(whole)})
    added = _added([Path(f) for f in files])
    with replacing(target) as temporary:
        with claimed(target, folder=True) as folder:
            fill_directory(traces, folder, trace_card, progress, suffix=".et.zst")
            trace_files = {
                f.relative_to(folder).as_posix(): f for f in folder.rglob("*") if f.is_file()
            }
            members = _pack(temporary, trace_files | added, whole)
        size = temporary.stat().st_size
    return BundleReport(str(target), True, size, members, [], whole)


def workload_card(traces: TraceSet, card: Mapping[str, Any]) -> WorkloadCard:
    """The workload's card: `card` wins over how the traces were made, that over the card they carry."""
    carried, derived = carried_card(traces.card), derived_card(traces)
    # The traces know what was done since the card they carry was written.
    provenance = {section: derived[section] for section in _PROVENANCE if section in derived}
    return card_from(overlaid(overlaid(overlaid(derived, carried), provenance), card), "card")


def carried_card(card: Card) -> dict[str, Any]:
    """The workload's card that traces carry from an earlier bundle; a ConfigError where it is none."""
    carried: dict[str, Any] = card.extra.get(WORKLOAD, {})
    card_from(carried, f"the card that {card.name!r} carries (extra.workload in card.json)")
    return carried


def _added(files: Sequence[Path]) -> dict[str, Path]:
    by_name: dict[str, Path] = {}
    for file in files:
        if not file.is_file():
            raise ChakraError(f"{file}: cannot be added: there is no such file")
        name = f"{_ADDED_FOLDER}/{file.name}"
        if name in by_name:
            raise ChakraError(f"{file}: a file named {file.name} is already added; rename one")
        by_name[name] = file
    return by_name


def _pack(target: Path, files: Mapping[str, Path], card: WorkloadCard) -> list[ListedFile]:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        members = [_put(archive, name, files[name]) for name in sorted(files)]
        manifest = Manifest(
            format=FORMAT,
            version=VERSION,
            tool=f"chakrakit {__version__}",
            card=msgspec.Raw(msgspec.json.encode(plain_card(card))),
            members=members,
        )
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        archive.writestr(_entry(MANIFEST), text + b"\n")
    return members


def _put(archive: zipfile.ZipFile, name: str, file: Path) -> ListedFile:
    with file.open("rb") as source:
        sha256 = digest(source)
        size = source.tell()
        source.seek(0)
        with archive.open(_entry(name), "w", force_zip64=size >= 1 << 31) as entry:
            shutil.copyfileobj(source, entry, 1 << 20)
    return ListedFile(name, size, sha256)


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system, info.external_attr = 3, 0o100644 << 16
    return info


# --- reading --------------------------------------------------------------------------------------


def check_bundle(path: str | os.PathLike[str]) -> BundleReport:
    """Reads all of a bundle and says everything that is wrong with it."""
    place = _bundle(path)
    manifest, folder, problems = inspect_bundle(place)
    faulty_members = {p.member for p in problems}
    for file in folder.walk():
        if file.inner not in faulty_members:
            problems += _damage(file)
    card = card_from(msgspec.json.decode(manifest.card), f"{place}/{MANIFEST}")
    size = place.stat().st_size
    return BundleReport(str(place), not problems, size, manifest.members, problems, card)


def _damage(file: BundlePath) -> list[Problem]:
    try:
        file.open().close()
    except FormatError as error:
        return [Problem(file.inner, error.problem)]
    return []


def extract_bundle(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """The bundle's files into a new directory, which every command opens as well.

    A directory that has them all already is left as it is: an extraction that was interrupted at its very
    end, when all was in place, can be repeated.
    """
    folder = open_bundle(_bundle(path))
    if Path(target).exists():
        if _is_extracted(folder, Path(target)):
            return
        raise ChakraError(f"{target}: exists already; give a new name")
    with fresh_directory(Path(target)) as place:
        for file in folder.walk():
            (place / file.inner).parent.mkdir(parents=True, exist_ok=True)
            with file.open() as source, (place / file.inner).open("xb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)


def _is_extracted(folder: BundlePath, target: Path) -> bool:
    """Whether a directory has the bundle's files and nothing else."""
    files = {file.inner: file for file in folder.walk()}
    there = {p.relative_to(target).as_posix() for p in target.rglob("*") if not p.is_dir()}
    return there == files.keys() and all(_same(files[n], target / n) for n in files)


def _same(file: BundlePath, copy: Path) -> bool:
    with file.open() as source, copy.open("rb") as other:
        while piece := source.read(1 << 20):
            if piece != other.read(1 << 20):
                return False
        return not other.read(1)


def _bundle(path: str | os.PathLike[str]) -> Path:
    place = Path(path)
    if not place.exists():
        raise ChakraError(f"{place}: no such file")
    if not is_bundle(place):
        raise FormatError(
            "not a bundle; `chakra bundle IN -o OUT.chakra` makes one", path=str(place)
        )
    return place
