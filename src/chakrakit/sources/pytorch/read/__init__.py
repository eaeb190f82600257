"""PyTorch's files as columns: the observer's JSON, Kineto's JSON, and which files belong together."""

from __future__ import annotations

from chakrakit.sources.pytorch.read.files import (
    RankFiles,
    RecordingPair,
    SourceFile,
    find_pairs,
    identify,
    identify_head,
    pairs_of,
    rank_in_name,
    read_bytes,
    read_head,
)
from chakrakit.sources.pytorch.read.kineto import (
    NUMBERS,
    TEXTS,
    Flows,
    Kind,
    Kineto,
    RankSpan,
    check_clock,
    check_span,
    check_times,
    check_together,
    read_kineto,
)
from chakrakit.sources.pytorch.read.observer import Extras, Observer, read_observer
from chakrakit.sources.pytorch.read.texts import TextPool, Whole, whole

__all__ = [
    "NUMBERS",
    "TEXTS",
    "Extras",
    "Flows",
    "Kind",
    "Kineto",
    "Observer",
    "RankFiles",
    "RankSpan",
    "RecordingPair",
    "SourceFile",
    "TextPool",
    "Whole",
    "check_clock",
    "check_span",
    "check_times",
    "check_together",
    "find_pairs",
    "identify",
    "identify_head",
    "pairs_of",
    "rank_in_name",
    "read_bytes",
    "read_head",
    "read_kineto",
    "read_observer",
    "whole",
]
