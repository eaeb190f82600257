"""Recordings that hold only communication, read into a Board."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.diagnosis.board import Board, CallSignature
from chakrakit.trace.communication import Calls, turns
from chakrakit.trace.model import CollectiveType, Trace
from chakrakit.trace.sets import Run

_STATES = {"scheduled": 0, "started": 1, "completed": 2}
_UNEVEN = (
    CollectiveType.ALL_TO_ALL,
    CollectiveType.GATHER,
    CollectiveType.SCATTER,
    CollectiveType.REDUCE,
)
"""Collectives in which ranks may send or receive different amounts."""


def is_recording(run: Run) -> bool:
    """Whether a recorder of communication made this run, so that it holds only calls."""
    return "recorder" in run.card.settings


@dataclass(frozen=True, eq=False)
class _Program:
    """The collective calls of a body, in the order of its rows; groups are numbered as in Calls."""

    rows: I64
    role: I64
    seq: I64
    nth: I64
    sign: I64
    state: I64

    def last(self) -> dict[int, int]:
        """The highest call number of each role."""
        out: dict[int, int] = {}
        for role in np.unique(self.role).tolist():
            out[role] = int(self.seq[self.role == role].max())
        return out


class _Codes:
    """Numbers for signatures and element types, shared by all programs."""

    def __init__(self) -> None:
        self.signatures: dict[CallSignature, int] = {}
        self.dtypes: dict[str, int] = {}

    def signs(self, trace: Trace, rows: I64) -> I64:
        kinds = trace.column("comm_type", -1)[rows].astype(np.int64)
        even = ~np.isin(kinds, [int(k) for k in _UNEVEN])
        sizes, outs = (
            np.where(even, trace.column(name, 0)[rows].astype(np.int64), 0)
            for name in ("comm_size", "out_size")
        )
        dtypes = self._dtypes(trace, rows)
        table, place = np.unique(
            np.stack([kinds, dtypes, sizes, outs]), axis=1, return_inverse=True
        )
        numbers_of = self.signatures
        numbers = [
            numbers_of.setdefault(CallSignature(*s), len(numbers_of)) for s in table.T.tolist()
        ]
        return np.array(numbers or [0], np.int64)[place.reshape(-1)]

    def _dtypes(self, trace: Trace, rows: I64) -> I64:
        codes, texts = _texts(trace, "comm_dtype", rows)
        numbers = [self.dtypes.setdefault(t, len(self.dtypes)) for t in texts]
        return np.array(numbers or [0], np.int64)[codes]


def _texts(trace: Trace, name: str, rows: I64) -> tuple[I64, list[str]]:
    """A text column of these rows as codes and texts; a missing text counts as an empty one."""
    if name not in trace.table.column_names:
        return np.zeros(len(rows), np.int64), [""]
    column = trace.table.column(name).take(rows).combine_chunks().fill_null("")
    coded = column.cast("string").dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(
        np.int64
    ), coded.dictionary.to_pylist()


def _program(trace: Trace, calls: Calls, codes: _Codes) -> _Program:
    at = np.flatnonzero(calls.collective)
    at = at[np.argsort(calls.row[at])]
    rows, role, seq = calls.row[at], calls.role[at], np.maximum(calls.seq[at], 0)
    states, words = _texts(trace, "comm_state", rows)
    state = np.array([_STATES.get(w, -1) for w in words], np.int64)[states]
    return _Program(rows, role, seq, turns(role, seq), codes.signs(trace, rows), state)


def board_of(run: Run) -> Board:
    """The collective calls of all ranks of a run as a Board."""
    codes, communication = _Codes(), run.communication
    programs: dict[int, _Program] = {}
    parts: dict[str, list[I64]] = {
        name: [] for name in ("rank", "group", "seq", "nth", "sign", "state", "start", "end")
    }
    last: dict[tuple[int, int], int] = {}
    for place, rank in enumerate(run.ranks):
        number, calls = int(communication.program[place]), communication.calls(place)
        if number not in programs:
            programs[number] = _program(run.body(rank), calls, codes)
        program, times = programs[number], run.times_of(rank)
        group = np.zeros(len(calls.names), np.int64)
        group[calls.roles] = communication.group_of[place]
        for role, highest in program.last().items():
            last[int(group[role]), rank] = highest
        for name in ("seq", "nth", "sign", "state"):
            parts[name].append(getattr(program, name))
        parts["rank"].append(np.full(len(program.rows), rank, np.int64))
        parts["group"].append(group[program.role])
        parts["start"].append(times.start[program.rows])
        parts["end"].append(times.end[program.rows])
    return Board(
        **{name: np.concatenate(p) for name, p in parts.items()},
        signatures=list(codes.signatures),
        kind_names={int(k): k.name for k in CollectiveType},
        group_names=[group.name for group in communication.groups],
        members=[_members(run, group.name) for group in communication.groups],
        recorded=np.array(run.ranks, np.int64),
        last=last,
    )


def _members(run: Run, group: str) -> I64:
    """The ranks of a group, ascending."""
    return np.array(sorted(run.groups.ranks_of(group, range(run.world_size)) or ()), np.int64)
