"""From recordings of a few ranks to the traces of all: kinds of ranks, their bodies, their bindings."""

from __future__ import annotations

from chakrakit.sources.capture.folding.families import Families, digest
from chakrakit.sources.capture.folding.folded import (
    CaptureReport,
    CollectiveFigures,
    KindFigures,
    fold,
    report_of,
)
from chakrakit.sources.capture.folding.kinds import Kind, Search

__all__ = [
    "CaptureReport",
    "CollectiveFigures",
    "Families",
    "Kind",
    "KindFigures",
    "Search",
    "digest",
    "fold",
    "report_of",
]
