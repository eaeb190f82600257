"""Raw files opened on the fly: recordings linked, workloads of other tools translated, kept by their content.

What was made of them lies in a private folder beside the system's temporary files, under a digest of the
files' bytes and of the program's version, so that the second time nothing is linked.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from chakrakit.sources import Raw
    from chakrakit.trace.sets import TraceSet

Say = Callable[[str], object]
MOST_KEPT = 32
"""Runs that stay in the folder; the ones opened longest ago are removed."""
_TRACES = (".et", ".et.gz", ".et.zst", ".chakra", "ranks.parquet")
"""How the names of files end that are traces by their name, or lie beside some."""
_PIECE = 1 << 22
"""Bytes hashed at a time."""


def said(path: str) -> str:
    """Opens a path and says on standard error what was done, for commands."""
    return opened(path, lambda line: click.echo(line, err=True))


def opened(path: str | os.PathLike[str], say: Say = lambda _line: None) -> str:
    """A path that `read` takes: as given, or where the run of a recording or the traces of a workload lie."""
    from chakrakit.trace.files import STDIO

    text = os.fspath(path)
    if text == STDIO or not Path(text).exists() or _is_trace(Path(text)):
        return text
    folder = _folder()
    seen = folder / f"{signature_of(Path(text))}.seen"
    if (known := _known(seen)) is not None:
        os.utime(folder / known[0])
        say(f"{text}: {known[1]}, linked before: {folder / known[0]}")
        return str(folder / known[0])
    from chakrakit.sources import raw_at

    raw = raw_at(Path(text))
    if raw is None:
        return text
    target = _kept(raw, folder, say)
    seen.write_text(f"{Path(target).name}\n{raw.description}\n")
    return target


def signature_of(path: Path) -> str:
    """A name for files by place, size and time of change: what they were, without reading them again."""
    from hashlib import blake2b

    from chakrakit import __version__

    files = (
        [path, *_cards_beside(path)]
        if path.is_file()
        else sorted(p for p in path.rglob("*") if p.is_file())
    )
    state = blake2b(f"{__version__}\0{path.absolute()}".encode(), digest_size=16)
    for file in files:
        status = file.stat()
        state.update(f"\0{file}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return state.hexdigest()


def _known(seen: Path) -> tuple[str, str] | None:
    """Which run files were linked to, and what they are; None if that is not known, or it is gone."""
    if not seen.is_file():
        return None
    digest, _, description = seen.read_text().strip().partition("\n")
    if not digest.isalnum() or not (seen.parent / digest / "card.json").is_file():
        return None
    return digest, description


def _is_trace(path: Path) -> bool:
    """Whether nothing has to be looked at: a trace's file by its name, a bundle, or a directory of traces."""
    if path.is_dir():
        return any(file.name.endswith(_TRACES) for file in path.iterdir())
    return path.name.endswith((*_TRACES, ".parquet"))


def _cards_beside(file: Path) -> list[Path]:
    """Cards of a collector in the folder of a recording, which linking that file alone reads as well."""
    return sorted(card for card in file.parent.glob("*card*.json") if card.is_file())


def _kept(raw: Raw, folder: Path, say: Say) -> str:
    cards = _cards_beside(raw.path) if raw.path.is_file() else []
    target = folder / digest_of([*raw.files, *cards])
    if (target / "card.json").is_file():
        os.utime(target)
        say(f"{raw.path}: {raw.description}, linked before: {target}")
        return str(target)
    from chakrakit.trace.storage import write

    traces = raw.traces()
    card = traces.card.replace(name=raw.path.name)
    write(traces.with_card(card), target)
    _remove_oldest(folder)
    say(f"{raw.path}: {raw.description}, linked and kept in {target}")
    for sentence in assumed_in(traces):
        say(f"assumed: {sentence}")
    return str(target)


def assumed_in(traces: TraceSet) -> list[str]:
    """What a workload's file does not say and its reader assumed."""
    assumed = traces.card.settings.get("assumed")
    return [str(sentence) for sentence in assumed] if isinstance(assumed, list) else []


def digest_of(files: Iterable[Path]) -> str:
    """A name for files with these names and bytes, read by this version of the program."""
    from hashlib import blake2b

    from chakrakit import __version__

    state = blake2b(__version__.encode(), digest_size=16)
    for file in files:
        state.update(f"\0{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                state.update(piece)
    return state.hexdigest()


def _folder() -> Path:
    """The private folder for what was opened; an error if somebody else made it."""
    from chakrakit.errors import ChakraError

    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"chakrakit-opened-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    foreign = hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077)
    if folder.is_symlink() or foreign:
        raise ChakraError(
            f"{folder}: not a private folder of yours; remove it, or set TMPDIR to another place"
        )
    return folder


def _remove_oldest(folder: Path) -> None:
    """Remove runs beyond those that are kept; whole, since another command may be about to make one again."""
    import contextlib

    runs = sorted((f for f in folder.iterdir() if f.is_dir()), key=lambda f: f.stat().st_mtime)
    for old in runs[:-MOST_KEPT]:
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory() as away:
            old.rename(Path(away) / old.name)
    for seen in folder.glob("*.seen"):
        if _known(seen) is None:
            seen.unlink(missing_ok=True)
