"""`PREFIX.N` files put in place together: a set is all old or all new, whenever its writer is stopped.

Files are written into a folder `.PREFIX.set`, which appears whole, by one rename. From then on the set is the
new one: its files are moved to where they belong, and if the writer does not get to it, the next reader or
writer of the prefix does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from chakrakit.trace.files import claimed, uninterrupted

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
    """Moves what a writer had ready and could not move; gives the files that cannot be moved here either."""
    ready = _ready(prefix)
    if not ready.is_dir():
        return []
    mine = (file for file in sorted(ready.iterdir()) if file.name.startswith(f"{prefix.name}."))
    left = [file for file in mine if not _moved(file, prefix.parent)]
    with contextlib.suppress(OSError):
        ready.rmdir()
    return left


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
