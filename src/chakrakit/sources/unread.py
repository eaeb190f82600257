"""Files of profilers that cannot be opened as they are, each with what to give in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import NamedTuple


class Unread(NamedTuple):
    """A kind of file that is known and not read."""

    is_it: Callable[[Path, bytes], bool]
    """By its name and its first bytes."""
    cure: Callable[[Path], str]


def cure_for(path: Path, head: bytes) -> str | None:
    """What to give in place of this file; None for a file that nobody knows."""
    return next((kind.cure(path) for kind in _UNREAD if kind.is_it(path, head)), None)


def _nsys_cure(path: Path) -> str:
    return (
        "a report that only Nsight Systems reads; export it, then give the new file: "
        f"nsys export --type sqlite -o {quote(path.with_suffix('.sqlite').name)} {quote(path.name)}"
    )


_ROCPROF_TABLES = (b'"Kind","Agent_Id"', b'"Domain","Function"', b'"Kind","Operation"')
"""How rocprofv3's tables of kernels, calls and copies begin."""

_UNREAD = (
    Unread(lambda path, _: path.suffix in (".nsys-rep", ".qdrep"), _nsys_cure),
    Unread(
        lambda path, _: path.suffix in (".ncu-rep", ".nsight-cuprof-report"),
        lambda _: (
            "counters of single kernels by Nsight Compute, which hold no timeline; record the "
            "program with Nsight Systems (nsys profile, then nsys export --type sqlite) or PyTorch's profiler"
        ),
    ),
    Unread(
        lambda _, head: head.startswith(_ROCPROF_TABLES),
        lambda _: (
            "a table of rocprofv3, one of several that no rank ties together; record with "
            "--output-format rocpd (or json, pftrace) instead of csv, and give that file"
        ),
    ),
    Unread(
        lambda _, head: b'"highres-ticks"' in head[:4096] and b'"traceEvents"' in head,
        lambda _: (
            "the picture that XLA's profiler draws of its profile; give NAME.xplane.pb, which lies "
            "beside it"
        ),
    ),
)
