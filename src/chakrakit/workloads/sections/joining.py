"""A rank's programs of several sections joined to one, with what it sends, receives and gathers between them.

On ranks that several sections share, forward passes of sections that feed others come first, then the
sections that feed nobody, then the backward passes the other way round, and last what applies the gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64, distinct
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.generate import RankClass
from chakrakit.workloads.layers import BlockNode
from chakrakit.workloads.program import (
    COLUMNS,
    MESSAGES,
    StageProgram,
    TextTables,
    in_order,
    pair_keys,
    table_of,
)
from chakrakit.workloads.sections.handing_on import Gathered, Joint, MessageEnd, Stays, tag_base
from chakrakit.workloads.sections.one import OneSection

_OWN = ("micro_batch", "chunk", "task", "version", "stream", "tag")
_FIRST_STREAM = 1 << 16
"""Streams of messages between sections, beyond those that sections number for themselves. Each message has
its own: sections may give and take micro-batches in different orders, and none may hold up another."""


@dataclass(frozen=True)
class Joined:
    """Everything that one rank does: its sections with their classes, and what is handed on."""

    sections: tuple[OneSection, ...]
    classes: tuple[RankClass, ...]
    messages: Sequence[MessageEnd]
    stays: Sequence[Stays]
    gathered: Sequence[Gathered]
    named: tuple[int, ...]
    """Ranks that it exchanges messages with: of its sections' own pipelines, then by message."""

    @property
    def peers(self) -> tuple[int, ...]:
        """The same ranks, each once, in the order in which they are first named."""
        return tuple(dict.fromkeys(self.named))

    @property
    def signature(self) -> tuple[object, ...]:
        """What ranks that can share a body have in common."""
        place = {peer: i for i, peer in enumerate(self.peers)}
        messages = tuple(m._replace(peer=place[m.peer]) for m in self.messages)
        return (
            tuple(id(c.program) for c in self.classes),
            tuple(place[peer] for peer in self.named),
            messages,
            tuple(self.stays),
            tuple(self.gathered),
        )


@dataclass
class _Rows:
    """Rows of several programs, one behind the other, with the place that each is to have.

    A row's key says which part of the step it is in, of which section, beside which row of it, on which side.
    """

    columns: list[dict[str, I64]] = field(default_factory=list)
    keys: list[I64] = field(default_factory=list)
    data: list[I64] = field(default_factory=list)
    control: list[I64] = field(default_factory=list)
    size: int = 0

    def add(self, columns: dict[str, I64], keys: I64) -> int:
        """Appends rows; gives the number of the first."""
        start = self.size
        self.columns.append(columns)
        self.keys.append(keys)
        self.size += len(keys)
        return start


class Joiner:
    """Joins what a rank does. `order` has the sections, each after those it takes results from."""

    def __init__(self, order: Sequence[str], book: TextTables) -> None:
        self.order, self.book = {name: i for i, name in enumerate(order)}, book

    def program(self, joined: Joined) -> tuple[StageProgram, list[str]]:
        """One program, and the section of each of its rows."""
        rows, starts = _Rows(), {}
        for section, rank_class in zip(joined.sections, joined.classes, strict=True):
            starts[section.name] = self._add_section(rows, section, rank_class)
        programs = {s.name: c.program for s, c in zip(joined.sections, joined.classes, strict=True)}
        spots = _Spots(programs, starts, rows, self.book)
        self._hand_on(rows, spots, joined)
        owner = _owners(rows, joined, spots)
        return self._sorted(rows, owner, joined)

    def _add_section(self, rows: _Rows, section: OneSection, rank_class: RankClass) -> int:
        program, number = rank_class.program, self.order[section.name]
        columns = {c: program.columns[c] for c in (*COLUMNS, *_OWN)}
        columns["role"] = self._renamed(section.name)[columns["role"]]
        columns["tag"] = columns["tag"] + tag_base(number)
        keys = np.zeros((len(program), 4), np.int64)
        keys[:, 0] = self._blocks(section, rank_class)
        keys[:, 1], keys[:, 2] = number, np.arange(len(program))
        start = rows.add(columns, keys)
        rows.data.append(program.data + start)
        rows.control.append(program.control + start)
        return start

    def _renamed(self, section: str) -> I64:
        """By role, the number of the section's own name for it."""
        texts = list(self.book.roles.texts)
        numbers = [
            self.book.roles.number(f"{section}.{t}")
            if t and "." not in t and t[:5] != "peer:"
            else i
            for i, t in enumerate(texts)
        ]
        return np.array(numbers, np.int64)

    def _blocks(self, section: OneSection, rank_class: RankClass) -> I64:
        """By row, the part of the step: forward, what feeds nobody, backward, the end."""
        count, place = len(self.order), self.order[section.name]
        tasks = rank_class.layout.schedule.tasks[rank_class.program.stage]
        forward, backward = (place, 2 * count - place) if section.feeds else (count, count)
        of_task = [forward if task.kind == "F" else backward for task in tasks]
        return np.array([*of_task, 3 * count - place], np.int64)[rank_class.program.columns["task"]]

    def _hand_on(self, rows: _Rows, spots: _Spots, joined: Joined) -> None:
        """Messages, gathers, and waiting of one section for another on the rank itself."""
        arrived: dict[Joint, list[int]] = {}
        place = {peer: i for i, peer in enumerate(joined.peers)}
        for lane, m in enumerate(joined.messages):
            node = BlockNode(
                m.name, m.op, comm_size=m.size, out_size=m.size, role=f"peer:{place[m.peer]}"
            )
            row = self._single(rows, spots, m.joint, node, m.op, _FIRST_STREAM + lane, m.tag)
            if m.op == "send":
                rows.data.append(np.array([(spots.end(m.joint), row)], np.int64))
            else:
                arrived.setdefault(m.joint, []).append(row)
        for stay in joined.stays:
            arrived.setdefault(stay.taker, []).append(spots.end(stay.giver))
        for g in joined.gathered:
            row = self._single(rows, spots, g.joint, _gather(g), "gather", _TP_STREAM, 0)
            waits = [(source, row) for source in arrived.get(g.joint, [])]
            rows.data.append(np.array(waits, np.int64).reshape(-1, 2))
            arrived[g.joint] = [row]
        for joint, sources in arrived.items():
            pairs = [(source, entry) for entry in spots.entries(joint) for source in sources]
            rows.data.append(np.array(pairs, np.int64).reshape(-1, 2))

    def _single(
        self,
        rows: _Rows,
        spots: _Spots,
        joint: Joint,
        node: BlockNode,
        op: str,
        stream: int,
        tag: int,
    ) -> int:
        """One more row, beside the task that it belongs to."""
        phase = "forward" if joint.task.kind == "F" else "backward"
        columns = dict(table_of([node], self.book, phase).columns)
        anchor = spots.end(joint) if op == "send" else spots.first(joint)
        side = {"recv": -2, "gather": -1, "send": 1}[op]
        own = (joint.task.micro_batch, joint.task.chunk, -1, 0, stream, tag)
        columns |= {name: np.array([value]) for name, value in zip(_OWN, own, strict=True)}
        return rows.add(columns, spots.key(anchor, side))

    def _sorted(
        self, rows: _Rows, owner: list[str], joined: Joined
    ) -> tuple[StageProgram, list[str]]:
        keys = np.concatenate(rows.keys)
        order = np.lexsort((keys[:, 3], keys[:, 2], keys[:, 1], keys[:, 0]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        columns = {
            name: np.concatenate([part[name] for part in rows.columns])[order]
            for name in (*COLUMNS, *_OWN)
        }
        data = place[np.concatenate(rows.data)]
        control = place[np.concatenate(rows.control)]
        if len(joined.sections) > 1 and all(s.section.plan.strict for s in joined.sections):
            known = distinct(pair_keys(np.concatenate([data, control]), len(order)))
            control = np.concatenate([control, in_order(columns["stream"], known)])
        weights = [w for c in joined.classes for w in c.program.weights]
        program = StageProgram(joined.classes[0].program.stage, columns, data, control, weights)
        return program, [owner[i] for i in order.tolist()]


_TP_STREAM = 1
"""Where collectives over tp run."""
assert _TP_STREAM < MESSAGES < _FIRST_STREAM


def _gather(gathered: Gathered) -> BlockNode:
    move = gathered.move
    assert move.kind is CollectiveType.ALL_GATHER
    return BlockNode(
        gathered.name,
        "collective",
        comm=move.kind,
        comm_size=move.size,
        out_size=move.out_size,
        role=f"{gathered.joint.section}.{move.axis}",
    )


class _Spots:
    """Finds the rows of a joint among the rows of all sections."""

    def __init__(
        self,
        programs: Mapping[str, StageProgram],
        starts: Mapping[str, int],
        rows: _Rows,
        book: TextTables,
    ) -> None:
        self.programs, self.starts, self.book = programs, starts, book
        self.keys = np.concatenate(rows.keys)

    def first(self, joint: Joint) -> int:
        """The row before which what arrives is received."""
        if joint.loss:
            return self.entries(joint)[0]
        return self.starts[joint.section] + self.programs[joint.section].tasks[joint.task].first

    def end(self, joint: Joint) -> int:
        """The row that makes what is handed on."""
        return self.starts[joint.section] + self.programs[joint.section].tasks[joint.task].end

    def entries(self, joint: Joint) -> list[int]:
        """The rows that wait for what arrives."""
        start, program = self.starts[joint.section], self.programs[joint.section]
        if joint.loss:
            return [start + row for row in self._loss_rows(program, joint)]
        return [start + row for row in program.tasks[joint.task].entries]

    def _loss_rows(self, program: StageProgram, joint: Joint) -> list[int]:
        rows = program.tasks[joint.task]
        names = self.book.names.texts
        task = program.columns["task"]
        mine = np.flatnonzero(task == task[rows.first])
        loss = [i for i in mine.tolist() if names[program.columns["name"][i]].startswith("loss")]
        return loss or [rows.end]

    def key(self, row: int, side: int) -> I64:
        """The place beside a row."""
        key: I64 = self.keys[row : row + 1].copy()
        key[0, 3] = side
        return key


def _owners(rows: _Rows, joined: Joined, spots: _Spots) -> list[str]:
    """The section of each row; of a message or a gather, that of its task."""
    names: list[str] = []
    for section, rank_class in zip(joined.sections, joined.classes, strict=True):
        names += [section.name] * len(rank_class.program)
    names += [m.joint.section for m in joined.messages]
    names += [g.joint.section for g in joined.gathered]
    return names


def peers_of(
    rank: int,
    sections: Sequence[OneSection],
    classes: Sequence[RankClass],
    messages: Sequence[MessageEnd],
) -> Iterator[int]:
    """The ranks that a rank exchanges messages with, those of its own sections first."""
    for section, rank_class in zip(sections, classes, strict=True):
        local = np.array([rank - section.mesh.first])
        for role in rank_class.peers:
            yield int(section.mesh.peers(local, role)[0])
    yield from (m.peer for m in messages)
