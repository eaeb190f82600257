"""Rows: the nodes of a module before they belong to a rank."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from chakrakit.operators import HLO_COLLECTIVES
from chakrakit.sources.xla.hlo import Instruction, Module
from chakrakit.sources.xla.program.memory import memory_of
from chakrakit.sources.xla.program.unrolled import Step, Unrolled
from chakrakit.trace.model import CollectiveType, NodeType

KINDS = {opcode: CollectiveType[kind] for opcode, kind in HLO_COLLECTIVES.items() if kind != "SEND"}
_PERMUTE = next(opcode for opcode, kind in HLO_COLLECTIVES.items() if kind == "SEND")
"""Messages between pairs of devices."""
COMPUTE, COMMUNICATION, RECEIVE = 0, 1, 2


@dataclass(eq=False)
class Row:
    """A node before it has a rank: what it is, and what it waits for."""

    name: str
    type: NodeType
    step: Step
    after: list[int]
    stream: int = COMPUTE
    kind: int = -1
    size: int = 0
    out_size: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    tag: int = 0
    alloc: int = 0
    free: int = 0


@dataclass(eq=False)
class Program:
    """Rows of a module, the same for all devices but for messages that a device has no part in."""

    module: Module
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    peak: int = 0


def program_of(module: Module) -> Program:
    """The rows of a module."""
    unrolled = Unrolled(module)
    out = Program(module, warnings=list(unrolled.warnings))
    alloc, free, out.peak = memory_of(module, unrolled.steps)
    last_of: dict[int, int] = {}
    tags: dict[str, int] = {}
    for number, step in enumerate(unrolled.steps):
        after = sorted({last_of[a] for a in step.after if a in last_of})
        for row in _rows(step, after, tags):
            row.alloc, row.free = (
                (alloc[number], free[number]) if row.name == step.instruction.name else (0, 0)
            )
            out.rows.append(row)
        last_of[number] = len(out.rows) - 1
    return out


def _rows(step: Step, after: list[int], tags: dict[str, int]) -> list[Row]:
    """One node, or a send and a receive for a permutation."""
    i, told = step.instruction, step.collective
    if told is None:
        return [Row(i.name, NodeType.COMP_NODE, step, after)]
    base = re.sub("-(start|done)$", "", told.opcode)
    stream = COMMUNICATION if step.kind == "start" else COMPUTE
    size = _operand_bytes(told, step)
    if base != _PERMUTE:
        return [
            Row(
                i.name,
                NodeType.COMM_COLL_NODE,
                step,
                after,
                stream,
                int(KINDS[base]),
                size,
                _result_bytes(told, step),
                told.groups,
            )
        ]
    tag = tags[told.name] = tags.get(told.name, len(tags))
    out = Row(
        f"{i.name}.send",
        NodeType.COMM_SEND_NODE,
        step,
        after,
        COMMUNICATION,
        -1,
        size,
        pairs=told.pairs,
        tag=tag,
    )
    back = Row(
        i.name, NodeType.COMM_RECV_NODE, step, after, RECEIVE, -1, size, pairs=told.pairs, tag=tag
    )
    return [out, back]


def _operand_bytes(told: Instruction, step: Step) -> int:
    sizes = {x.name: x.shape.bytes for x in step.inside.instructions}
    found = sum(sizes.get(o, 0) for o in told.operands)
    if not found:  # operands are parameters of the computation it was wrapped in
        found = sum(sizes.get(o, 0) for o in step.instruction.operands)
    return found


def _result_bytes(told: Instruction, step: Step) -> int:
    """What comes out; a start's result holds its operands too."""
    doubled = told.opcode.startswith(("all-gather", "collective-permute")) and step.kind == "start"
    if doubled and told.shape.is_tuple and len(told.shape.parts) > 1:
        return told.shape.parts[1].bytes
    return told.shape.bytes
