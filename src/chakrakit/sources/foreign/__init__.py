"""Workloads that other tools describe: one file per format, registered here by name, content and reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chakrakit.trace.sets import TraceSet


class Workload(NamedTuple):
    """A format of workloads: its name, how it is recognised by a file's first bytes, its reader."""

    name: str
    recognises: Callable[[bytes], bool]
    read: Callable[[bytes, str], TraceSet]
    """From a file's bytes, uncompressed, and its name for errors."""


WORKLOADS: tuple[Workload, ...] = ()
"""The registry of workloads, in the order in which they are tried."""


def workload_of(head: bytes) -> Workload | None:
    """The format of a file with these first bytes; None if it is not a workload of others."""
    return next((w for w in WORKLOADS if w.recognises(head)), None)


__all__ = ["WORKLOADS", "Workload", "workload_of"]
