"""Traces that workers linked, kept on disk until they are written: one rank is in memory at a time."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
import weakref
from pathlib import Path

from chakrakit.trace.files import claimed
from chakrakit.trace.model import Trace


class Spool:
    """A folder of this run alone, which goes when nothing refers to it any more.

    Only its owner removes it: copies that workers get know the place and no more.
    """

    def __init__(self, parent: Path | None = None) -> None:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        owned = contextlib.ExitStack()
        beside = Path(parent or tempfile.gettempdir(), "linking")
        self.place = owned.enter_context(claimed(beside, folder=True, mode=0o700))
        weakref.finalize(self, owned.close)

    def __getstate__(self) -> dict[str, Path]:
        return {"place": self.place}

    def put(self, rank: int, trace: Trace) -> None:
        """Keeps a rank's trace."""
        with (self.place / str(rank)).open("wb") as stream:
            pickle.dump(trace, stream, protocol=5)

    def get(self, rank: int) -> Trace:
        """The trace again: our own worker wrote it, in a folder that only we can enter."""
        with (self.place / str(rank)).open("rb") as stream:
            trace: Trace = pickle.load(stream)
        return trace
