"""Runs that hold communication alone, as recorders leave them, laid out on a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.hangs.board import Board, Signature
from chakrakit.trace.communication import canonical_group, turns
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.sets import Run

_STATES = {"scheduled": 0, "started": 1, "completed": 2}
_UNEVEN = (
    CollectiveType.ALL_TO_ALL,
    CollectiveType.GATHER,
    CollectiveType.SCATTER,
    CollectiveType.REDUCE,
)
"""Collectives whose ranks may bring or get different amounts."""


def is_recording(run: Run) -> bool:
    """Whether a recorder of communication made this run: it holds calls and nothing else."""
    return "recorder" in run.card.settings


@dataclass(frozen=True, eq=False)
class _Program:
    """The collective calls of a body, with groups as the body names them."""

    rows: I64
    role: I64
    roles: list[str]
    seq: I64
    nth: I64
    sign: I64
    state: I64

    def last(self) -> dict[int, int]:
        """The highest number of each role."""
        out: dict[int, int] = {}
        for role in np.unique(self.role).tolist():
            out[role] = int(self.seq[self.role == role].max())
        return out


class _Codes:
    """Numbers for signatures and element types, shared by all programs."""

    def __init__(self) -> None:
        self.signatures: dict[Signature, int] = {}
        self.dtypes: dict[str, int] = {}

    def signs(self, trace: Trace, rows: I64) -> I64:
        kinds = trace.column("comm_type", -1)[rows].astype(np.int64)
        even = ~np.isin(kinds, [int(k) for k in _UNEVEN])
        sizes, outs = (
            np.where(even, trace.column(name, 0)[rows].astype(np.int64), 0)
            for name in ("comm_size", "out_size")
        )
        dtypes = self._dtypes(trace, rows)
        table, which = np.unique(
            np.stack([kinds, dtypes, sizes, outs]), axis=1, return_inverse=True
        )
        known = self.signatures
        numbers = [known.setdefault(Signature(*s), len(known)) for s in table.T.tolist()]
        return np.array(numbers or [0], np.int64)[which.reshape(-1)]

    def _dtypes(self, trace: Trace, rows: I64) -> I64:
        codes, texts = _texts(trace, "comm_dtype", rows)
        known = [self.dtypes.setdefault(t, len(self.dtypes)) for t in texts]
        return np.array(known or [0], np.int64)[codes]


def _texts(trace: Trace, name: str, rows: I64) -> tuple[I64, list[str]]:
    """A text column as codes and texts; absent is an empty text."""
    if name not in trace.table.column_names:
        return np.zeros(len(rows), np.int64), [""]
    column = trace.table.column(name).take(rows).combine_chunks().fill_null("")
    coded = column.cast("string").dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(
        np.int64
    ), coded.dictionary.to_pylist()


def _program(trace: Trace, codes: _Codes) -> _Program:
    rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
    role, roles = _texts(trace, "pg_name", rows)
    seq = trace.column("comm_seq", 0)[rows].astype(np.int64)
    states, words = _texts(trace, "comm_state", rows)
    state = np.array([_STATES.get(w, -1) for w in words], np.int64)[states]
    return _Program(rows, role, roles, seq, turns(role, seq), codes.signs(trace, rows), state)


def board_of(run: Run) -> Board:
    """The collective calls of all ranks."""
    codes = _Codes()
    programs: dict[int, _Program] = {}
    groups = _GroupCodes(run)
    parts: dict[str, list[I64]] = {
        name: [] for name in ("rank", "group", "seq", "nth", "sign", "state", "start", "end")
    }
    last: dict[tuple[int, int], int] = {}
    for rank in run.ranks:
        binding = run.bindings[rank]
        if binding.body not in programs:
            programs[binding.body] = _program(run.body_at(binding.body), codes)
        program, times = programs[binding.body], run.times_of(rank)
        group = groups.numbers(program.roles, binding.groups)
        for role, number in program.last().items():
            last[int(group[role]), rank] = number
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
        group_names=groups.names,
        members=groups.members(),
        recorded=np.array(run.ranks, np.int64),
        last=last,
    )


class _GroupCodes:
    """Numbers for groups; names that mean all ranks are one."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.names: list[str] = []
        self._number: dict[str, int] = {}

    def numbers(self, roles: list[str], bound: Mapping[str, str]) -> I64:
        """The group each role of a program is to one rank."""
        return np.array([self._of(bound.get(role, role)) for role in roles] or [0], np.int64)

    def _of(self, name: str) -> int:
        known = canonical_group(name, self._run.groups)
        if known not in self._number:
            self._number[known] = len(self.names)
            self.names.append(known)
        return self._number[known]

    def members(self) -> list[I64]:
        """The ranks of each group."""
        world = range(max(self._run.world_size, max(self._run.ranks) + 1))
        found = [self._run.groups.ranks_of(name, world) or () for name in self.names]
        return [np.array(sorted(ranks), np.int64) for ranks in found]
