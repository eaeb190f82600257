"""Turns recordings of a few ranks into the traces of all: a body per kind of rank, a binding per rank."""

from __future__ import annotations

from chakrakit.sources.capture.folding.families import Families, digest
from chakrakit.sources.capture.folding.folded import (
    CaptureReport,
    CollectiveFigures,
    KindFigures,
    fold,
    report_of,
)
from chakrakit.sources.capture.folding.kinds import RankKind, Search

__all__ = [
    "CaptureReport",
    "CollectiveFigures",
    "Families",
    "KindFigures",
    "RankKind",
    "Search",
    "digest",
    "fold",
    "report_of",
]
