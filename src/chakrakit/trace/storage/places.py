"""The files behind a path: a file, a `prefix` of `prefix.N.et`, a directory, or `-`; and their groups.

Also how the files of a prefix are put in place together.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from chakrakit.errors import ChakraError, nearest
from chakrakit.trace.communication import Groups, read_groups
from chakrakit.trace.files import (
    STDIO,
    BundlePath,
    Source,
    claimed,
    is_bundle,
    open_bundle,
    open_input,
    uninterrupted,
)

# `PREFIX.N` files put in place together: a set is all old or all new, whenever its writer is stopped.
#
# Files are written into a folder `.PREFIX.set`, which appears whole, by one rename. From then on the set is
# the new one: its files are moved to where they belong, by the writer or, if that is stopped, by the next
# reader or writer of the prefix.


_SET = ".set"


@contextlib.contextmanager
def placed_together(prefix: Path) -> Iterator[Path]:
    """A folder whose files take their places beside `prefix` when the block ends well."""
    finish(prefix)
    with claimed(prefix, folder=True) as folder:
        yield folder
        with uninterrupted():
            folder.rename(_ready(prefix))
            finish(prefix)


def finish(prefix: Path) -> list[Path]:
    """Moves the files that an interrupted writer left ready; returns those that cannot be moved."""
    ready = _ready(prefix)
    if not ready.is_dir():
        return []
    mine = (file for file in sorted(ready.iterdir()) if file.name.startswith(f"{prefix.name}."))
    unmoved = [file for file in mine if not _moved(file, prefix.parent)]
    with contextlib.suppress(OSError):
        ready.rmdir()
    return unmoved


def finish_all(folder: Path) -> list[Path]:
    """The same for every prefix of a folder."""
    prefixes = [f.with_name(f.name[1 : -len(_SET)]) for f in folder.glob(f".*{_SET}")]
    return [file for prefix in prefixes for file in finish(prefix)]


def _ready(prefix: Path) -> Path:
    return prefix.with_name(f".{prefix.name}{_SET}")


def _moved(file: Path, folder: Path) -> bool:
    try:
        file.replace(folder / file.name)
    except FileNotFoundError:
        return True  # by somebody who does the same
    except OSError:
        return False
    return True


Place = Path | BundlePath
"""A file or directory, on disk or in a bundle."""
RANKED = re.compile(
    r"(?P<prefix>.+?)\.(?P<rank>\d{1,9})\.(?P<format>et|parquet|json|feeder\.json)(\.gz|\.zst)?"
)
_TRACE_JSON = re.compile(
    rb'(\xef\xbb\xbf)?\s*\{\s*("(format|workload_graph|version|attr|schema|traceEvents)"|\}\s*\{)'
)

_RECORDING = re.compile(rb'"(traceEvents|schemaVersion|deviceProperties)"|"schema"\s*:\s*"[0-9.]+"')
"""How a Kineto or observer file begins."""


def is_stream(path: Source) -> bool:
    """Whether this is an open stream or standard input, which can be read once."""
    if isinstance(path, BundlePath):
        return False
    return not isinstance(path, (str, os.PathLike)) or os.fspath(path) == STDIO


def place_of(path: Source) -> Place:
    """What a path names on disk, or in a bundle; a bundle itself is the folder inside."""
    if isinstance(path, BundlePath):
        return path
    place = Path(path)  # type: ignore[arg-type]
    return open_bundle(place) if is_bundle(place) else place


def named_rank(file: Place) -> int | None:
    """The N of `prefix.N.et`; None for another name."""
    match = RANKED.fullmatch(file.name)
    return int(match["rank"]) if match else None


def prefix_of(file: Place) -> str:
    """The prefix of `prefix.N.et`, else the name up to the first dot."""
    match = RANKED.fullmatch(file.name)
    return match["prefix"] if match else file.name.split(".")[0]


def rank_files(path: Source) -> dict[int, Source]:
    """The files behind a path by rank, without reading them; a single source is rank 0 or its N."""
    if is_stream(path):
        return {0: path}
    place = place_of(path)
    if place.is_dir():
        return dict(body_files(place))
    if place.exists():
        return {named_rank(place) or 0: place}
    files = ranked_files(Path(path).parent, place.name)  # type: ignore[arg-type]
    if not files:
        raise ChakraError(
            f"{path}: no such file or directory, and no {place.name}.N.et beside it; "
            f"{_likely(Path(path))}give a file, a prefix of prefix.N.et, a directory, or - for stdin"  # type: ignore[arg-type]
        )
    return dict(files)


_LOOKED_AT = 1000
"""Names of a folder among which one that was misspelled is looked for."""


def _likely(place: Path) -> str:
    """`did you mean 'run'? ` where a name like it lies beside it; else nothing."""
    try:
        beside = [file.name for file in itertools.islice(place.parent.iterdir(), _LOOKED_AT)]
    except OSError:
        return ""
    names = {m["prefix"] if (m := RANKED.fullmatch(name)) else name for name in beside}
    said = nearest(place.name, sorted(names))
    return f"{said} Or " if said.startswith("did you mean") else ""


def ranked_files(folder: Place, prefix: str) -> dict[int, Place]:
    """`prefix.N.et` files (any format, any compression) by rank; of several, the `.et` is taken."""
    by_rank: dict[int, Place] = {}
    unmoved = finish(folder / prefix) if isinstance(folder, Path) and prefix else []
    for file in [
        *unmoved,
        *files_in(folder),
    ]:  # of a set that could not be moved, its files are the new ones
        if (match := RANKED.fullmatch(file.name)) and match["prefix"] == prefix:
            by_rank.setdefault(int(match["rank"]), file)
    return dict(sorted(by_rank.items()))


def body_files(folder: Place) -> dict[int, Place]:
    """The ranked files of a directory; all must have one prefix. Other formats count if there is no .et."""
    unmoved = finish_all(folder) if isinstance(folder, Path) else []
    matches = [m for f in (*unmoved, *files_in(folder)) if (m := RANKED.fullmatch(f.name))]
    matches = [m for m in matches if m["format"] == "et"] or matches
    prefixes = sorted({m["prefix"] for m in matches})
    if len(prefixes) > 1:
        examples = ", ".join(prefixes[:4]) + (", …" if len(prefixes) > 4 else "")
        raise ChakraError(
            f"{folder}: holds several traces ({examples}); give one as {folder}/PREFIX"
        )
    return ranked_files(folder, prefixes[0]) if prefixes else _lone_file(folder)


def _lone_file(folder: Place) -> dict[int, Place]:
    files = [f for f in files_in(folder) if re.search(r"\.et(\.gz|\.zst)?$", f.name)]
    if len(files) != 1:
        more = _sets_in(folder) or _recorded_in(folder)
        raise ChakraError(f"{folder}: no NAME.N.et files in this directory{more}")
    return {0: files[0]}


def _sets_in(folder: Place) -> str:
    """Which folders inside hold traces, such as those of several jobs."""
    folders = [f.name for f in _folders_in(folder) if any(map(_is_ranked, files_in(f)))]
    return (
        f"; {', '.join(folders)} in it hold traces: give one, as {folder}/{folders[0]}"
        if folders
        else ""
    )


def _is_ranked(file: Place) -> bool:
    return RANKED.fullmatch(file.name) is not None


def _folders_in(folder: Place) -> list[Place]:
    """The first few folders in a folder, sorted."""
    return sorted((f for f in _inside(folder) if f.is_dir()), key=lambda f: f.name)[:8]


def _recorded_in(folder: Place) -> str:
    """What to do with a directory of PyTorch's recordings, if it is one."""
    files = [f for place in (folder, *_folders_in(folder)) for f in files_in(place)]
    texts = [f for f in files if re.search(r"\.json(\.gz)?$", f.name)]
    for file in texts[:8]:
        with open_input(file) as stream:
            if _RECORDING.search(stream.peek(4096)[:4096]):
                return (
                    f"; {file.name} is a recording of PyTorch: link it first, "
                    f"chakra link {folder} -o RUN"
                )
    return ""


def files_in(folder: Place) -> list[Place]:
    """The files of a directory, sorted; also links to nowhere, so that reading them says so."""
    if not folder.is_dir():
        return []
    try:
        return sorted((f for f in _inside(folder) if not f.is_dir()), key=lambda f: f.name)
    except OSError as error:
        raise ChakraError(f"{folder}: cannot be read: {error.strerror}") from None


def _inside(folder: Place) -> Iterator[Place]:
    yield from folder.iterdir()


def groups_beside_file(file: Path) -> Groups:
    """The groups of a trace's file: those of its prefix; a file without a rank has none."""
    match = RANKED.fullmatch(file.name)
    return groups_beside(file.parent, match["prefix"]) if match else Groups()


def groups_beside(folder: Place, prefix: str) -> Groups:
    """Groups in `prefix.json`, or in `groups.json` of the same directory."""
    for file in (folder / f"{prefix}.json", folder / "groups.json"):
        if file.is_file() and not _is_trace(file):
            return read_groups(file)
    return Groups()


def _is_trace(file: Place) -> bool:
    """Whether a JSON file is a trace that happens to have the name of a group file."""
    with open_input(file) as stream:
        return bool(_TRACE_JSON.match(stream.peek(256)[:256]))
