"""Every error chakrakit raises on purpose.

    ChakraError
    ├── FormatError      a file is not what it should be (path, byte offset)
    ├── TraceError       a trace is readable but cannot be used (rank, node)
    ├── ConfigError      a setting or description is wrong (where in it)
    ├── DeadlockError    work that can never run (the nodes that wait)
    └── MissingExtra     an optional dependency is not installed (the command that installs it)

Each message says what is wrong, where, and what to do; the command line prints it and exits 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ChakraError(Exception):
    """Base of all errors a user of chakrakit can cause or meet."""


class FormatError(ChakraError):
    """A file's bytes are not what its format says."""

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        self.problem = message
        self.path = path
        self.offset = offset
        place = path or "input"
        at = f" at byte {offset:,}" if offset is not None and offset >= 0 else ""
        super().__init__(f"{place}{at}: {message}")


class TraceError(ChakraError):
    """A trace was read, but cannot be used for what the caller wants."""


class ConfigError(ChakraError):
    """A description or a setting given by the user is wrong."""


class DeadlockError(ChakraError):
    """Some work can never run, because it waits for something that never happens.

    `simulation` is what a simulation had done until then: `run()` has the times of all that began.
    """

    simulation: Any = None


class MissingExtra(ChakraError):  # noqa: N818 - reads as what it is
    """An optional dependency is needed and not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional package: pip install 'chakrakit[{extra}]'")


_SHOWN = 12
"""Names that a message lists: about as many as fit two lines of a terminal."""


def nearest(name: object, names: Iterable[object], few: int = _SHOWN) -> str:
    """The end of a message "no X named …": the names most like it or, if none is, the names there are."""
    from difflib import get_close_matches  # for errors alone, and it takes a while to import

    texts = [str(k) for k in names]
    spelled = {t.lower(): t for t in texts}
    close = (
        get_close_matches(str(name).lower(), spelled, 3) if str(name).strip("-0123456789") else []
    )
    if close:
        return f"did you mean {' or '.join(repr(spelled[c]) for c in close[:2])}?"
    return f"there are {listed(texts, few)}" if texts else "there are none"


def listed(names: Iterable[object], few: int = _SHOWN) -> str:
    """Names for a message: all of a few, else the first, the last and how many there are."""
    texts = [str(n) for n in names]
    if len(texts) <= few:
        return ", ".join(texts)
    return f"{', '.join(texts[: few - 4])}, … {texts[-1]} ({len(texts):,} of them)"
