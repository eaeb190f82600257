"""What a file is, told by its first bytes and never by its name."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from chakrakit.sources.flight_recorder import is_dump
from chakrakit.sources.nccl_inspector import is_inspector
from chakrakit.sources.nsys import is_export
from chakrakit.sources.pytorch.read import Source, identify_head, read_head
from chakrakit.sources.rocprof import is_rocprof
from chakrakit.sources.snapshots import is_snapshot
from chakrakit.sources.xla.hlo import is_hlo
from chakrakit.sources.xla.xplane import is_xplane


class Format(StrEnum):
    """The recordings that can be linked."""

    PYTORCH = "PyTorch's observer or Kineto"
    NSYS = "Nsight Systems"
    ROCPROF = "rocprofv3"
    FLIGHT_RECORDER = "flight recorder"
    NCCL_INSPECTOR = "NCCL Inspector"
    XPLANE = "XLA's profiler"
    HLO = "an HLO module"
    SNAPSHOT = "a memory snapshot"


_TESTS: tuple[tuple[Format, Callable[[bytes], bool]], ...] = (
    (Format.NSYS, is_export),
    (Format.ROCPROF, is_rocprof),
    (Format.NCCL_INSPECTOR, is_inspector),
)


_LATER: tuple[tuple[Format, Callable[[bytes], bool]], ...] = (
    (Format.SNAPSHOT, is_snapshot),
    (Format.FLIGHT_RECORDER, is_dump),
    (Format.XPLANE, is_xplane),
    (Format.HLO, is_hlo),
)
"""What could be mistaken for one of the others is asked about last."""


class Recognised(NamedTuple):
    """A file, plain or gzipped, as its first bytes show it."""

    path: Path
    format: Format | None
    """None for what is no recording."""
    pytorch: Source | None = None
    """What more they say of one of PyTorch's files."""


def recognise(path: Path) -> Recognised:
    """Looks at a file's first bytes once."""
    try:
        head = read_head(path)
    except zlib.error:
        return Recognised(path, None)
    for name, test in _TESTS:
        if test(head):
            return Recognised(path, name)
    if (source := identify_head(path, head)) is not None:
        return Recognised(path, Format.PYTORCH, source)
    # Kineto lists process groups under the same key.
    return Recognised(path, next((name for name, test in _LATER if test(head)), None))
