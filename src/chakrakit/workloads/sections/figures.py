"""What a graph of sections amounts to before anything is written."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from chakrakit.workloads.generate import (
    ClassFigures,
    CommunicationFigures,
    Figures,
    SectionFigures,
    communication,
    replicated,
)
from chakrakit.workloads.program import peak_held
from chakrakit.workloads.sections.one import OneSection
from chakrakit.workloads.sections.programs import SectionPrograms, SharedBody


def section_figures(programs: SectionPrograms) -> Figures:
    """The figures of a step, read off its programs."""
    per_rank = [_body_figures(programs, body) for body in programs.bodies]
    sections = [_section(s) for s in programs.sections.values()]
    handed = dict.fromkeys(programs.sections, 0)
    for messages in programs.handed.messages.values():
        for m in messages:
            if m.op == "send":
                handed[m.name.rpartition(".")[0].rpartition(".")[0]] += m.size
    parameters = sum(s.parameters for s in sections)
    return Figures(
        model=programs.graph.name,
        parameters=parameters,
        active_parameters=parameters,
        ranks=programs.size,
        micro_batches=max(s.micro_batches for s in sections),
        tokens=programs.tokens,
        flops_total=sum(c.flops * c.ranks for c in per_rank),
        replicated=[r for s in programs.sections.values() for r in replicated(s)],
        bubble_fraction=0.0,
        per_rank=per_rank,
        steps=programs.graph.step.steps,
        sections=[_with_handed(s, handed[s.section]) for s in sections],
    )


def _with_handed(section: SectionFigures, size: int) -> SectionFigures:
    return msgspec.structs.replace(section, handed_bytes=size)


def _section(section: OneSection) -> SectionFigures:
    mesh = section.mesh
    flops = sum(int(c.program.columns["flops"].sum()) * len(c.ranks) for c in section.classes)
    return SectionFigures(
        section=section.name,
        model=section.workload.model.name,
        parameters=_parameters(section),
        ranks=mesh.size,
        first_rank=mesh.first,
        samples=len(section.samples.places),
        micro_batches=max(len(batches) for batches in section.samples.of),
        flops=flops,
        handed_bytes=0,
    )


def _parameters(section: OneSection) -> int:
    """All weights of the section's blocks once; a tied table counts once."""
    layout = section.layout
    blocks = [part.block for piece in layout.pieces for part in piece]
    tied = not layout.headless
    return sum(
        w.all_elements
        for b in blocks
        for w in layout.stack.block(b).weights
        if not (w.tied and tied)
    )


def _body_figures(programs: SectionPrograms, body: SharedBody) -> ClassFigures:
    columns = body.program.columns
    memory: Counter[str] = Counter()
    for part in programs.state(body):
        memory[part.kind] += part.bytes
    memory["activations"] = peak_held(body.program)
    names = "+".join(s.name for s in body.joined.sections)
    return ClassFigures(
        rank_class=f"{names} rank {body.ranks[0]}",
        ranks=len(body.ranks),
        first_rank=body.ranks[0],
        nodes=len(body.program),
        flops=int(columns["flops"].sum()),
        vector_ops=int(columns["vector_ops"].sum()),
        memory={**memory, "total": sum(memory.values())},
        comm=_communication(programs, body),
    )


def _communication(programs: SectionPrograms, body: SharedBody) -> list[CommunicationFigures]:
    """Bytes by type and group; messages between sections are one group, named so."""
    book = programs.book
    between = book.roles.number("sections")
    roles = [between if t.startswith("peer:") else i for i, t in enumerate(book.roles.texts)]
    columns = dict(body.program.columns)
    columns["role"] = np.array(roles)[columns["role"]]

    def degree(role: str) -> int:
        section, _, own = role.partition(".")
        return programs.sections[section].mesh.degree(own)

    return communication(columns, book, degree)
