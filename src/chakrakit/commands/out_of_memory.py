"""What to say when memory ends: how much was asked for, how much there was, and what takes less."""

from __future__ import annotations

import re
from pathlib import Path

_LIMITS = {"RLIMIT_AS": "ulimit -v", "RLIMIT_DATA": "ulimit -d"}


LEAST_ROOM = 256 << 20
"""Bytes of addresses that numpy and Arrow take before anything is read. With less, the libraries themselves
end the process, each in its own way."""


def check_room() -> None:
    """A MemoryError where the shell allows less than any command needs to begin."""
    try:
        import resource
    except ImportError:  # not on every system
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < LEAST_ROOM:
        raise MemoryError(f"size {LEAST_ROOM}")


_UNMAPPED = "failed to map segment from shared object"
"""What the loader says of a library that there is no room for."""


def lack_of_memory(error: BaseException | None) -> MemoryError | None:
    """The lack of memory that an error comes from, whatever it was taken for on the way; or None."""
    while error is not None and not isinstance(error, MemoryError):
        if isinstance(error, ImportError) and _UNMAPPED in str(error):
            return MemoryError()
        error = error.__cause__ or error.__context__
    return error


def explained(error: MemoryError) -> str:
    """One line for the user."""
    asked = re.search(r"[\d.]+ [KMGT]iB|size (\d+)", str(error))
    if asked is None:
        needed = "more memory was needed than there is"
    else:
        size = _readable(int(asked[1])) if asked[1] else asked[0]
        needed = f"{size} more were needed at once than there is memory for"
    held = _resident()
    beside = f" beside the {_readable(held)} in use" if held else ""
    return (
        f"{needed}{beside}{_limit()}; give fewer ranks, steps or micro-batches, a part of the trace "
        "(`transform --pass select{…}`), --jobs 1, or more memory"
    )


def _resident() -> int:
    """Bytes that the process holds; 0 where the system does not say."""
    try:
        said = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", said)
    return int(found[1]) << 10 if found else 0


def _limit() -> str:
    """The limits that the shell has set, if there are any."""
    try:
        import resource
    except ImportError:  # not on every system
        return ""
    found = []
    for name, command in _LIMITS.items():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY:
            found.append(f"{_readable(soft)} by `{command}`")
    return f", and {' and '.join(found)} are all that may be taken" if found else ""


def _readable(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:,.0f} MiB"
