"""From recordings of a few ranks to the traces of all: kinds of ranks, their bodies, their bindings."""

from __future__ import annotations

from chakrakit.sources.capture.folding.digest import digest
from chakrakit.sources.capture.folding.families import Families
from chakrakit.sources.capture.folding.folded import fold
from chakrakit.sources.capture.folding.kinds import Kind, Search
from chakrakit.sources.capture.folding.report import (
    CaptureReport,
    CollectiveFigures,
    KindFigures,
    report_of,
)

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
