"""Boards of recorded calls, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chakrakit.insight.diagnosis.board import Board, CallSignature

SIGNATURES = (
    CallSignature(0, 0, 8, 8),
    CallSignature(2, 0, 8, 8),
    CallSignature(0, 0, 16, 16),
    CallSignature(0, 1, 8, 8),
)
"""A sum; a collective of another kind, one of another size, one of another element type."""


class Call(NamedTuple):
    """A call of a rank; done unless it says otherwise."""

    rank: int
    seq: int
    group: int = 0
    sign: int = 0
    state: int = 2
    start: int = 0
    end: int = 1
    nth: int = 0


def board(
    calls: Sequence[Call],
    members: Sequence[Sequence[int]],
    recorded: Sequence[int] | None = None,
    last: dict[tuple[int, int], int] | None = None,
) -> Board:
    """The calls on a board. Every rank that calls is recorded, and its last number is what it calls."""
    columns = {f: np.array([getattr(c, f) for c in calls], np.int64) for f in Call._fields}
    highest: dict[tuple[int, int], int] = {}
    for c in calls:
        highest[c.group, c.rank] = max(c.seq, highest.get((c.group, c.rank), -1))
    here = sorted({c.rank for c in calls}) if recorded is None else recorded
    return Board(
        **columns,
        signatures=SIGNATURES,
        kind_names={0: "ALL_REDUCE", 2: "ALL_GATHER"},
        group_names=["", *(f"g{i}" for i in range(1, len(members)))],
        members=[np.array(ranks, np.int64) for ranks in members],
        recorded=np.array(here, np.int64),
        last=highest | (last or {}),
    )
